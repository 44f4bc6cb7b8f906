//! Chains of every shape become plain values.

use std::fmt;
use std::sync::{Arc, OnceLock};

use namzu_types::{Phase, Secret};
use serde_json::json;

use super::*;

/// An error whose cause is set after it is made, so that a chain can loop.
#[derive(Debug, Default)]
struct Knot(OnceLock<Arc<Self>>);

impl fmt::Display for Knot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("knot")
    }
}

impl StdError for Knot {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.get().map(|next| &**next as _)
    }
}

/// A wrapper at the address of what it wraps.
#[derive(Debug)]
struct Wrapper<T>(T);

impl<T> fmt::Display for Wrapper<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("wrapper")
    }
}

impl<T: StdError + 'static> StdError for Wrapper<T> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

fn names(mut one: &SerializedSandboxError) -> Vec<&str> {
    let mut names = vec![one.name.as_str()];
    while let Some(cause) = &one.cause {
        names.push(&cause.name);
        one = cause;
    }
    names
}

#[test]
fn an_error_keeps_everything_but_its_secrets() {
    let err = Error::new(ErrorCode::LayoutInvalid, "invalid layout")
        .with_reasons(vec!["one".to_owned(), "two \u{0} \"\n".to_owned()])
        .with_hint("mend it")
        .during(Phase::Configure)
        .on("container:docker")
        .with_source(
            Error::new(ErrorCode::BackendNotAvailable, "nothing there")
                .with_source(std::io::Error::other("disk on fire")),
        );
    let envelope = serialize_sandbox_error(&err);
    let json = serde_json::to_value(&envelope).unwrap();
    assert_eq!(
        json,
        json!({
            "name": "ContainerSandboxLayoutValidationError",
            "message": "invalid layout: one; two \u{0} \"\n",
            "code": "layout_invalid",
            "phase": "configure",
            "backend": "container:docker",
            "retryable": false,
            "reasons": ["one", "two \u{0} \"\n"],
            "hint": "mend it",
            "cause": {
                "name": "SandboxBackendNotImplementedError",
                "message": "nothing there",
                "code": "backend_not_available",
                "retryable": false,
                "cause": {"name": "Error", "message": "disk on fire"}
            }
        })
    );
    let text = serde_json::to_string(&envelope).unwrap();
    let back: SerializedSandboxError = serde_json::from_str(&text).unwrap();
    assert_eq!(back, envelope);
}

#[test]
fn every_other_error_of_ours_is_a_sandbox_error() {
    for &code in ErrorCode::ALL {
        let own = matches!(
            code,
            ErrorCode::BackendNotAvailable | ErrorCode::LayoutInvalid
        );
        let envelope = serialize_sandbox_error(&Error::new(code, "x"));
        assert_eq!(envelope.name != "SandboxError", own, "{code}");
        assert_eq!(envelope.code.as_deref(), Some(code.as_str()));
    }
}

#[test]
fn a_chain_that_is_its_own_cause_ends() {
    let knot = Arc::new(Knot::default());
    assert!(knot.0.set(Arc::clone(&knot)).is_ok());
    assert_ends(&*knot, 1);
}

#[test]
fn a_chain_that_loops_behind_an_error_of_ours_ends() {
    let (one, two) = (Arc::new(Knot::default()), Arc::new(Knot::default()));
    assert!(one.0.set(Arc::clone(&two)).is_ok());
    assert!(two.0.set(Arc::clone(&one)).is_ok());
    let err = Error::new(ErrorCode::Internal, "outer").with_source(Wrapper(Wrapper(one)));
    // Ours, two wrappers, the shared pointer, the loop of two.
    assert_ends(&err, 6);
}

/// The chain of `links` different errors ends where it comes back to itself, on the first lap
/// or the second.
#[track_caller]
fn assert_ends(err: &(dyn StdError + 'static), links: usize) {
    let envelope = serialize_sandbox_error(err);
    let names = names(&envelope);
    assert_eq!(names.last(), Some(&"CircularReference"), "{names:?}");
    assert!(
        (links + 1..=2 * links + 1).contains(&names.len()),
        "{names:?}"
    );
}

#[test]
fn a_wrapper_at_the_address_of_its_cause_is_no_loop() {
    let err = Wrapper(Wrapper(Wrapper(std::io::Error::from_raw_os_error(2))));
    assert_eq!(
        names(&serialize_sandbox_error(&err)),
        ["Error", "Error", "Error", "Error"]
    );
}

#[test]
fn a_long_chain_is_walked_to_its_end() {
    let mut err = Error::new(ErrorCode::Internal, "0");
    for depth in 1..2000 {
        err = Error::new(ErrorCode::Internal, depth.to_string()).with_source(err);
    }
    assert_eq!(names(&serialize_sandbox_error(&err)).len(), 2000);
}

#[test]
fn a_secret_has_no_text_to_put_into_an_error() {
    let secret = Secret::new("hunter2");
    let err = Error::new(ErrorCode::Unauthenticated, format!("refused {secret:?}"));
    let text = serde_json::to_string(&serialize_sandbox_error(&err)).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
}
