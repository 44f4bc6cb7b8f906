//! Signed URLs of `/files`: `v1_` and the unpadded base64 of a SHA-256 over what is allowed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::query::FilesQuery;

/// What a signed URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `GET /files`.
    Read,
    /// `POST /files`.
    Write,
}

impl Operation {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Why a signed URL is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// It has no signature.
    #[error("missing signature query parameter")]
    Missing,
    /// The signature is not that of this path, operation, user, token and expiration.
    #[error("invalid signature")]
    Invalid,
    /// It held once.
    #[error("signature is already expired")]
    Expired,
}

/// Signs one operation on one path.
///
/// `username` is empty for the default user. `token` is the sandbox's access token.
#[must_use]
pub fn sign(
    path: &str,
    operation: Operation,
    username: &str,
    token: &str,
    expiration: Option<u64>,
) -> String {
    let mut hash = Sha256::new();
    for part in [path, ":", operation.as_str(), ":", username, ":", token] {
        hash.update(part);
    }
    if let Some(expiration) = expiration {
        hash.update(format!(":{expiration}"));
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(hash.finalize()))
}

/// Checks a signed URL at `now`, in seconds since 1970.
///
/// # Errors
///
/// [`SignatureError`] says why it is refused.
pub fn verify(
    query: &FilesQuery,
    operation: Operation,
    token: &str,
    now: u64,
) -> Result<(), SignatureError> {
    let given = query.signature.as_deref().ok_or(SignatureError::Missing)?;
    let right = sign(
        query.path.as_deref().unwrap_or_default(),
        operation,
        query.username.as_deref().unwrap_or_default(),
        token,
        query.signature_expiration,
    );
    // What is signed joins its parts with colons: a user name with one could pass a part of another
    // path off as its own, and so turn a signed read into a write of a shorter path.
    let ambiguous = query
        .username
        .as_deref()
        .is_some_and(|user| user.contains(':'));
    if !constant_time_eq(given.as_bytes(), right.as_bytes()) || ambiguous {
        return Err(SignatureError::Invalid);
    }
    if query.signature_expiration.is_some_and(|until| until < now) {
        return Err(SignatureError::Expired);
    }
    Ok(())
}

/// Compares secrets in a time that depends on the length of `right` alone.
///
/// Both are hashed first, so what the comparison takes says nothing about how much of `given`
/// is right.
#[must_use]
pub fn constant_time_eq(given: &[u8], right: &[u8]) -> bool {
    let (given, right) = (Sha256::digest(given), Sha256::digest(right));
    let difference = given
        .iter()
        .zip(right.iter())
        .fold(0, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
    difference == 0
}
