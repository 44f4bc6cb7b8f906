//! Advice: what a person can do about an error.

use std::error::Error as StdError;

use namzu_sandbox::{Error, ErrorCode};

/// Every hint along the cause chain, outermost first; the program's own where there is none.
pub(crate) fn hints(err: &Error) -> Vec<String> {
    let mut found = Vec::new();
    let mut next: Option<&(dyn StdError + 'static)> = Some(err);
    // A chain that loops must not hang the program that reports it.
    for _ in 0..64 {
        let Some(cause) = next else { break };
        if let Some(hint) = cause.downcast_ref::<Error>().and_then(Error::hint)
            && !found.iter().any(|seen| seen == hint)
        {
            found.push(hint.to_owned());
        }
        next = cause.source();
    }
    if found.is_empty() {
        found.extend(general(err.code()).map(str::to_owned));
    }
    found
}

/// Advice that holds for a whole class.
const fn general(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::CommandNotStarted => Some(
            "the command runs as it is, without a shell: `-- sh -c '...'` for pipes and variables",
        ),
        ErrorCode::HostUnsupported => {
            Some("`namzu-sandbox doctor` says what this host lacks and how to mend it")
        }
        ErrorCode::BackendNotAvailable => Some("`namzu-sandbox backends` lists those there are"),
        ErrorCode::OutOfMemory => Some("a higher --memory gives it more"),
        ErrorCode::ExecTimeout => Some("a longer --timeout gives it more"),
        ErrorCode::LifetimeExceeded => Some("a longer --lifetime gives it more"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_deep_in_the_chain_is_found_and_said_once() {
        let inner = Error::new(ErrorCode::BackendFailed, "starting bwrap").with_hint("install it");
        let outer = Error::new(ErrorCode::HostUnsupported, "creating a sandbox")
            .with_hint("install it")
            .with_source(inner);
        assert_eq!(hints(&outer), ["install it"]);
    }

    #[test]
    fn a_class_speaks_only_where_the_error_is_silent() {
        let silent = Error::new(ErrorCode::CommandNotStarted, "starting `ls | wc`");
        assert_eq!(hints(&silent).len(), 1);
        let spoken = Error::new(ErrorCode::CommandNotStarted, "starting `x`").with_hint("own");
        assert_eq!(hints(&spoken), ["own"]);
    }
}
