//! `rm`: destroys running sandboxes.

use crate::args::RmArgs;
use crate::context::{Context, no_sandbox};
use crate::failure::Failure;
use crate::keeper;

pub(crate) async fn run(cx: &mut Context, args: &RmArgs) -> Result<u8, Failure> {
    let places = cx.places()?;
    let mut first = None;
    for id in &args.ids {
        let remove = async {
            for provider in &places {
                if provider.list().await?.iter().any(|info| info.id == *id) {
                    provider.destroy(id).await?;
                    // Its keeper, if it has one, sees that and ends; one that was killed left its socket.
                    keeper::forget(id).await;
                    return Ok(());
                }
            }
            Err(no_sandbox(id))
        };
        match cx.signals.unless(remove).await {
            Ok(()) => {}
            Err(Failure::Interrupted(signal)) => return Err(Failure::Interrupted(signal)),
            // The others are removed all the same; the last failure is the program's own.
            Err(failure) => {
                if let Some(earlier) = first.replace(failure) {
                    cx.out.failure(&earlier);
                }
            }
        }
    }
    match first {
        Some(failure) => Err(failure),
        None => Ok(0),
    }
}
