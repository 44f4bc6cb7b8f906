//! What a case answers, and the few words it is written with.

use std::error::Error as StdError;
use std::fmt;

use namzu_core::{Chain, Error, ErrorCode};

/// `Ok` when the claim holds.
pub(crate) type Verdict<T = ()> = Result<T, Failure>;

/// Why a claim does not hold.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// `Failure` is no `Error`, so that every error turns into one with its whole chain.
impl<E: StdError + 'static> From<E> for Failure {
    fn from(err: E) -> Self {
        let err: &(dyn StdError + 'static) = &err;
        Self(match err.downcast_ref::<Error>() {
            Some(ours) => format!("[{}] {}", ours.code(), Chain(ours)),
            None => Chain(err).to_string(),
        })
    }
}

/// Fails the case unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err($crate::conformance::check::Failure::new(format!($($why)+)));
        }
    };
}

/// Fails the case unless both are equal.
macro_rules! ensure_eq {
    ($found:expr, $wanted:expr, $($what:tt)+) => {
        match (&$found, &$wanted) {
            (found, wanted) => if found != wanted {
                return Err($crate::conformance::check::Failure::new(format!(
                    "{}: found {found:?}, wanted {wanted:?}",
                    format_args!($($what)+),
                )));
            }
        }
    };
}

pub(crate) use {ensure, ensure_eq};

/// The error, if the call failed with exactly this code.
pub(crate) fn refused_with<T>(
    result: Result<T, Error>,
    code: ErrorCode,
    what: &str,
) -> Verdict<Error> {
    match result {
        Ok(_) => Err(Failure::new(format!("{what}: succeeded, wanted `{code}`"))),
        Err(err) if err.code() == code => Ok(err),
        Err(err) => Err(Failure::new(format!(
            "{what}: failed with `{}` ({}), wanted `{code}`",
            err.code(),
            Chain(&err)
        ))),
    }
}

/// Bytes as a person can read them, cut where they get long.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const LONG: usize = 300;
    let head = bytes.get(..LONG).unwrap_or(bytes).escape_ascii();
    match bytes.len() {
        0..=LONG => head.to_string(),
        len => format!("{head}… ({len} bytes)"),
    }
}
