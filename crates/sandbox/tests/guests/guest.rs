//! One guest: what it is told, what it does, and what must come of that.

use std::sync::Arc;

use crate::bench::Bench;
use crate::place::{AT_ONCE, Place};

/// A program that goes out. Scripts are for `sh -e`, in an empty folder; `$GUEST` has what the test gives
/// them, `$HOST` is whom they go to, and `$PYTHON` has the libraries of the guests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guest {
    pub(crate) name: &'static str,
    /// Programs that must be there.
    pub(crate) needs: &'static [&'static str],
    /// Modules of Python that must be there.
    pub(crate) modules: &'static [&'static str],
    /// How it is told to trust the server, where it is passed through.
    pub(crate) trust: &'static str,
    /// What it does before it goes out.
    pub(crate) prepare: &'static str,
    /// How it goes out.
    pub(crate) script: &'static str,
    /// What it says when it worked.
    pub(crate) says: &'static str,
    /// How it is told not to try again, where it is to fail.
    pub(crate) once: &'static str,
    /// What it says when it is denied: the reason, where the program shows what it is answered.
    pub(crate) laments: &'static str,
    pub(crate) ways: &'static [Way],
}

/// How a guest goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By a rule that only names the host.
    Passthrough,
    /// By a rule that needs to see requests.
    Ended,
    /// To a host that no rule names.
    Denied,
}

/// All of them.
pub(crate) const ALL: &[Way] = &[Way::Passthrough, Way::Ended, Way::Denied];

impl Guest {
    pub(crate) const fn new(
        name: &'static str,
        trust: &'static str,
        script: &'static str,
        says: &'static str,
    ) -> Self {
        Self {
            name,
            needs: &[],
            modules: &[],
            trust,
            prepare: "",
            script,
            says,
            once: "",
            laments: "",
            ways: ALL,
        }
    }

    /// Goes out, in a sandbox of its own.
    pub(crate) fn go(&self, bench: &Arc<Bench>, way: Way) {
        let place = Place::open(bench, way);
        let trust = if way == Way::Ended { "" } else { self.trust };
        place.run(&format!("{trust}\n{}", self.prepare)).ok();
        let script = format!("{trust}\n{}", self.script);
        match way {
            Way::Passthrough => {
                let said = place.run(&script).ok();
                assert!(said.contains(self.says), "{said}");
                place.was_passed_through();
            }
            Way::Ended => {
                let said = place.run(&script).ok();
                assert!(said.contains(self.says), "{said}");
                place.was_ended();
            }
            Way::Denied => {
                let ran = place.run(&format!("{}\n{script}", self.once));
                let took = ran.took;
                let said = ran.refused();
                assert!(said.contains(self.laments), "{said}");
                assert!(took < AT_ONCE, "{took:?}: {said}");
                place.was_denied();
            }
        }
    }
}

impl Way {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Passthrough => "passthrough",
            Self::Ended => "ended",
            Self::Denied => "denied",
        }
    }
}
