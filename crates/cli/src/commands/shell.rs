//! `shell`: a terminal in a fresh sandbox, or in a running one.

use std::collections::BTreeMap;

use crate::args::ShellArgs;
use crate::commands::{exec, run};
use crate::context::Context;
use crate::failure::Failure;
use crate::settings;

pub(crate) async fn run(cx: &mut Context, args: &ShellArgs) -> Result<u8, Failure> {
    match &args.id {
        Some(id) => {
            let env = settings::variables(&args.sandbox.env, &Context::host())?;
            exec::inside(cx, id, &settings::shell(env)).await
        }
        None => {
            let spec = settings::spec(&args.sandbox, &Context::host())?;
            let provider = cx.provider_with(&args.sandbox.boundary, &spec);
            let command = settings::shell(BTreeMap::new());
            run::fresh(cx, provider, spec, &command, false).await
        }
    }
}
