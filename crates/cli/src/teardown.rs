//! The end of a sandbox that this program made.

use std::time::Duration;

use namzu_sandbox::{Error, ErrorCode, Phase, Sandbox};

/// How long the end of a sandbox may take before the program gives up waiting for it.
const DESTROY: Duration = Duration::from_secs(20);

/// Destroys `sandbox`. No signal cuts this short; time does.
pub(crate) async fn destroy(sandbox: &Sandbox) -> Result<(), Error> {
    match tokio::time::timeout(DESTROY, sandbox.destroy()).await {
        Ok(destroyed) => destroyed,
        Err(_) => Err(Error::new(
            ErrorCode::RequestTimeout,
            format!("destroying sandbox `{}` took too long", sandbox.id()),
        )
        .during(Phase::Destroy)),
    }
}
