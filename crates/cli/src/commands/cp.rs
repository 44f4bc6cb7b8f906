//! `cp`: files and directories between the host and a running sandbox.

use crate::args::CpArgs;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::SIGPIPE;
use crate::parse::Location;
use crate::transfer::download::{self, Delivery};
use crate::transfer::{Options, upload};

pub(crate) async fn run(cx: &mut Context, args: &CpArgs) -> Result<u8, Failure> {
    let options = Options {
        max_size: args.max_size,
        follow: args.follow,
        progress: !args.quiet && !cx.out.json,
    };
    let warnings = match (&args.from, &args.to) {
        (Location::Sandbox { id, path }, to @ (Location::Host(_) | Location::Standard)) => {
            let sandbox = cx.connect(id).await?;
            let copied = download::run(&sandbox, path, to, options);
            match cx.signals.unless(copied).await? {
                Delivery::Whole => Vec::new(),
                // As it ends `cat`, without a word.
                Delivery::Unread => return Err(Failure::Interrupted(SIGPIPE)),
            }
        }
        (from @ (Location::Host(_) | Location::Standard), Location::Sandbox { id, path }) => {
            let sandbox = cx.connect(id).await?;
            cx.signals
                .unless(upload::run(&sandbox, from, path, options))
                .await?
        }
        _ => {
            return Err(Failure::Usage(
                "exactly one of SRC and DST must be ID:PATH".to_owned(),
            ));
        }
    };
    for warning in warnings {
        cx.out.warn(warning);
    }
    Ok(0)
}
