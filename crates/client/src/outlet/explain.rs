//! What a policy says to a host, with no sandbox.

use std::sync::atomic::{AtomicU64, Ordering};

use namzu_core::{Error, ErrorCode, Result};
use namzu_egress::policy::{Question, Snapshot, decide};
use namzu_egress::{Explanation, parse_authority};
use namzu_types::{EgressPolicy, SandboxId};

use super::SharedBoundary;

/// The port of an authority that names none.
const HTTPS: u16 = 443;

/// What `policy` says to `authority`. A resolver is asked.
pub(crate) async fn explain(
    boundary: &SharedBoundary,
    policy: &EgressPolicy,
    authority: &str,
    generation: u64,
) -> Result<Explanation> {
    if matches!(policy, EgressPolicy::Resolver { .. }) {
        let egress = boundary.get()?.admit(&nobody()?, policy).await?;
        return egress.explain(authority).await;
    }
    let asked = parse_authority(authority).map_err(|err| {
        Error::new(ErrorCode::InvalidArgument, "explain what a policy says").with_source(err)
    })?;
    let snapshot = Snapshot::compile(policy, generation).map_err(|reasons| {
        Error::new(ErrorCode::ConfigInvalid, "invalid egress policy").with_reasons(reasons)
    })?;
    let verdict = decide(
        &snapshot,
        &Question {
            host: &asked.host,
            port: Some(asked.port.unwrap_or(HTTPS)),
            scheme: None,
            request: None,
        },
    );
    Ok(verdict.into())
}

/// A name for an end at the boundary that belongs to no sandbox.
fn nobody() -> Result<SandboxId> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let text = format!("explain-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    text.try_into()
        .map_err(|err| Error::new(ErrorCode::Internal, "a name is malformed").with_source(err))
}
