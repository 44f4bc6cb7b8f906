//! `plan`: what a sandbox would enforce.

use crate::args::{BoundaryArgs, PlanArgs};
use crate::context::Context;
use crate::failure::Failure;
use crate::settings;

pub(crate) async fn run(cx: &mut Context, args: &PlanArgs) -> Result<u8, Failure> {
    let mut spec = settings::spec(&args.sandbox, &Context::host())?;
    spec.detach = args.detach;
    // Nothing is recorded of what is not done.
    let boundary = BoundaryArgs {
        audit_log: None,
        ..args.sandbox.boundary.clone()
    };
    let provider = cx.provider_with(&boundary, &spec)?;
    let receipt = cx.signals.unless(provider.plan(&spec)).await?;
    if cx.out.json {
        cx.out.json(&receipt)?;
    } else {
        cx.out.text(receipt)?;
    }
    Ok(0)
}
