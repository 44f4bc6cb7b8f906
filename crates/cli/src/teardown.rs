//! The end of a sandbox that this program made.

use namzu_sandbox::{Error, ErrorCode, Phase, Sandbox};

use crate::settings::DESTROY;

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
