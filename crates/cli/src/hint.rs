//! Advice: what a person can do about an error.

use std::error::Error as StdError;

use namzu_sandbox::{Error, ErrorCode};

use crate::failure::Failure;

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

/// What a program that may not be there was looked for in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Nothing of the host's own files was asked to be inside.
    pub(crate) nothing_shared: bool,
    /// The host's files are the sandbox's.
    pub(crate) no_wall: bool,
}

/// Adds advice on `program`, where `failure` says that it was not found.
pub(crate) fn on_program(failure: Failure, program: Option<&Vec<u8>>, place: Place) -> Failure {
    match (failure, program) {
        (Failure::Sandbox(err), Some(program)) if was_not_found(&err) => {
            Failure::Sandbox(err.with_hint(not_found(program, place)))
        }
        (failure, _) => failure,
    }
}

/// The worker has one code for all reasons not to start, and a sentence for each.
fn was_not_found(err: &Error) -> bool {
    let chain = std::iter::successors(Some(err as &(dyn StdError + 'static)), |cause| {
        (*cause).source()
    });
    err.code() == ErrorCode::CommandNotStarted
        && err.hint().is_none()
        && chain
            .take(64)
            .any(|cause| cause.to_string().ends_with("' was not found"))
}

/// Advice on a program that is not there.
fn not_found(program: &[u8], place: Place) -> &'static str {
    if program
        .iter()
        .any(|byte| byte.is_ascii_whitespace() || b"|&;<>()$`\"'*?=".contains(byte))
    {
        return NO_SHELL;
    }
    match program {
        [b'/', ..] if place.no_wall => "no such file is there",
        [b'/', ..] => "it is not there inside; programs of your home are not visible",
        path if path.contains(&b'/') => {
            if place.nothing_shared {
                "nothing of this directory is inside: add `-w .`"
            } else {
                "a relative path starts at the workspace inside, or at --cwd"
            }
        }
        _ if place.no_wall => "it is not on the PATH inside",
        _ => "it is not on the PATH inside; programs of your home are not visible",
    }
}

const NO_SHELL: &str =
    "the command runs as it is, without a shell: `-- sh -c '...'` for pipes and variables";

/// Advice that holds for a whole class.
const fn general(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::CommandNotStarted => Some(NO_SHELL),
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

    #[test]
    fn a_program_that_is_not_there_gets_the_advice_that_helps() {
        let fresh = Place {
            nothing_shared: true,
            no_wall: false,
        };
        let shared = Place {
            nothing_shared: false,
            ..fresh
        };
        for (program, place, wanted) in [
            ("ls | wc", fresh, "sh -c"),
            ("A=1", fresh, "sh -c"),
            ("$SHELL", shared, "sh -c"),
            ("./x.sh", fresh, "-w ."),
            ("bin/x", fresh, "-w ."),
            ("./x.sh", shared, "workspace"),
            ("/home/me/x", fresh, "your home"),
            ("cargo", fresh, "PATH"),
        ] {
            let inner = Error::new(ErrorCode::Internal, format!("'{program}' was not found"));
            let err = Error::new(ErrorCode::CommandNotStarted, "starting").with_source(inner);
            let failure = on_program(err.into(), Some(&program.into()), place);
            let Failure::Sandbox(err) = failure else {
                panic!("{failure}")
            };
            let hints = hints(&err);
            assert!(hints.len() == 1 && hints[0].contains(wanted), "{hints:?}");
        }
        let denied = Error::new(ErrorCode::CommandNotStarted, "'x' may not be executed");
        let failure = on_program(denied.into(), Some(&b"x".to_vec()), fresh);
        assert!(matches!(failure, Failure::Sandbox(err) if err.hint().is_none()));
    }
}
