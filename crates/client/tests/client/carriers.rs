//! One list of claims, over every way to reach a worker.

use namzu_client::{ExecRequest, Sandbox};

/// Makes one test of each function, over each carrier.
macro_rules! over_every_carrier {
    ($($name:ident)*) => {$(
        mod $name {
            use super::*;

            #[tokio::test]
            async fn lane() {
                super::$name(Real::sandbox(Carrier::Lane).await).await;
            }

            #[tokio::test]
            async fn pair() {
                super::$name(Real::sandbox(Carrier::Pair).await).await;
            }

            #[tokio::test]
            async fn unix() {
                super::$name(Real::sandbox(Carrier::Unix).await).await;
            }

            #[tokio::test]
            async fn http() {
                super::$name(Real::sandbox(Carrier::Http).await).await;
            }

            #[tokio::test]
            async fn stdio() {
                super::$name(Real::sandbox(Carrier::Stdio).await).await;
            }
        }
    )*};
}

mod commands;
mod files;

fn sh(script: &str) -> ExecRequest {
    ExecRequest::new(["/bin/sh", "-c", script])
}

async fn stdout_of(sandbox: &Sandbox, script: &str) -> String {
    let output = sandbox.exec(sh(script)).await.unwrap();
    output.stdout.text_lossy().into_owned()
}
