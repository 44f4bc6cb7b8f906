//! How deep a tree may be that is copied.

use namzu_sandbox::{Error, ErrorCode, Phase};

/// Deepest directory, either way: each open level of the host costs a descriptor.
pub(super) const MAX_DEPTH: usize = 200;

/// `path` is more than [`MAX_DEPTH`] levels deep.
pub(super) fn too_deep(doing: &str, path: &[u8]) -> Error {
    let shown = String::from_utf8_lossy(&path[..path.len().min(64)]);
    Error::new(
        ErrorCode::InvalidArgument,
        format!("{doing}: `{shown}`… is more than {MAX_DEPTH} levels deep"),
    )
    .during(Phase::Files)
}
