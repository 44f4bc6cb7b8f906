//! Errors as plain values, for a log, another process or another language.

use std::collections::HashSet;
use std::error::Error as StdError;

use namzu_types::ErrorCode;
use serde::{Deserialize, Serialize};

use crate::Error;

/// An error as a plain value: safe through JSON and any process boundary.
///
/// `name`, `message`, `reasons` and `cause` are those of the TypeScript package; the other fields
/// are only there for errors of our own. There is never a `stack`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SerializedSandboxError {
    /// The class, as the TypeScript package names it: `SandboxBackendNotImplementedError`,
    /// `ContainerSandboxLayoutValidationError`, `SandboxError` for every other error of our own,
    /// `Error` for anybody else's, `CircularReference` where a chain comes back to itself.
    pub name: String,
    /// The message.
    pub message: String,
    /// The stable code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What was being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The backend's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Whether repeating the identical call may succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// Every violation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// What a person can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The cause, in the same shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Self>>,
}

/// Turns an error and its whole cause chain into plain values. Ends on a chain that loops.
#[must_use]
pub fn serialize_sandbox_error(err: &(dyn StdError + 'static)) -> SerializedSandboxError {
    let mut seen = HashSet::new();
    let mut links = Vec::new();
    let mut next = Some(err);
    while let Some(err) = next {
        // Address and vtable together: a wrapper has the address of what it wraps. One type may
        // have two vtables, so a loop can be walked once more than needed; it ends all the same.
        if !seen.insert(std::ptr::from_ref(err)) {
            links.push(SerializedSandboxError {
                name: "CircularReference".to_owned(),
                message: "[circular]".to_owned(),
                ..SerializedSandboxError::default()
            });
            break;
        }
        links.push(link(err));
        next = err.source();
    }
    let chain = links.into_iter().rev().reduce(|cause, mut link| {
        link.cause = Some(Box::new(cause));
        link
    });
    // There is at least the error itself.
    chain.unwrap_or_default()
}

/// One error without its cause.
fn link(err: &(dyn StdError + 'static)) -> SerializedSandboxError {
    let message = err.to_string();
    let Some(ours) = err.downcast_ref::<Error>() else {
        return SerializedSandboxError {
            name: "Error".to_owned(),
            message,
            ..SerializedSandboxError::default()
        };
    };
    SerializedSandboxError {
        name: name(ours.code()).to_owned(),
        message,
        code: Some(ours.code().as_str().to_owned()),
        phase: ours.phase().map(|phase| phase.as_str().to_owned()),
        backend: ours.backend().map(str::to_owned),
        retryable: Some(ours.is_retryable()),
        reasons: ours.reasons().to_vec(),
        hint: ours.hint().map(str::to_owned),
        cause: None,
    }
}

fn name(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::BackendNotAvailable => "SandboxBackendNotImplementedError",
        ErrorCode::LayoutInvalid => "ContainerSandboxLayoutValidationError",
        _ => "SandboxError",
    }
}

#[cfg(test)]
mod tests;
