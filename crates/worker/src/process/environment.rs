//! What a command sees as its environment, and where its program is looked for.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::{EnvBase, StartError};
use crate::config::Config;

/// Marks every process of a command, so that the whole tree can be found again.
pub(crate) const COOKIE: &str = "NAMZU_COOKIE";

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables in order of first appearance; a later value replaces an earlier one.
#[derive(Debug)]
pub(crate) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// The environment of a command: the base, then `envs`.
    ///
    /// # Errors
    /// A name that is empty or holds `=` or NUL, or a value that holds NUL.
    pub(crate) fn build(
        config: &Config,
        base: EnvBase,
        cookie: &str,
        terminal: bool,
        envs: &[(String, String)],
    ) -> Result<Self, StartError> {
        for (name, value) in envs {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(StartError::Invalid(format!(
                    "invalid environment variable {name:?}"
                )));
            }
        }
        // The cookie stands first: it is looked for at the start of the block.
        let mut built = Self(vec![(COOKIE.into(), cookie.into())]);
        match base {
            EnvBase::Sandbox => {
                let inherited = |name: &str| {
                    config
                        .inherited
                        .iter()
                        .find(|(key, _)| key == name)
                        .map(|(_, value)| value.as_os_str())
                };
                built.set(
                    "PATH",
                    inherited("PATH").unwrap_or(OsStr::new(DEFAULT_PATH)),
                );
                built.set("HOME", config.user.home.as_os_str());
                built.set("USER", config.user.name.as_ref());
                built.set("LOGNAME", config.user.name.as_ref());
                built.set("E2B_SANDBOX", "true".as_ref());
                for name in ["E2B_SANDBOX_ID", "E2B_TEMPLATE_ID"] {
                    if let Some(value) = inherited(name) {
                        built.set(name, value);
                    }
                }
            }
            EnvBase::Worker => {
                for (name, value) in &config.inherited {
                    built.set(name, value);
                }
            }
        }
        if terminal {
            built.set("TERM", "xterm-256color".as_ref());
        }
        for (name, value) in config.envs.iter().chain(envs) {
            built.set(name, value.as_ref());
        }
        Ok(built)
    }

    fn set(&mut self, name: impl AsRef<OsStr>, value: &OsStr) {
        let name = name.as_ref();
        match self.0.iter_mut().find(|(known, _)| known == name) {
            // A request that names the cookie would only hide its own processes.
            Some(_) if name == COOKIE => {}
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((name.to_owned(), value.to_owned())),
        }
    }

    /// As `execve` takes it.
    pub(crate) fn block(&self) -> Vec<CString> {
        let joined = self
            .0
            .iter()
            .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
        joined
            .filter_map(|variable| CString::new(variable).ok())
            .collect()
    }

    /// The paths under which `program` may be: itself when it holds a slash, else one in every
    /// absolute directory of PATH. Relative entries are skipped: they would run what a command
    /// left in some working directory.
    pub(crate) fn candidates(&self, program: &CString) -> Vec<CString> {
        let bytes = program.as_bytes();
        if bytes.contains(&b'/') {
            return vec![program.clone()];
        }
        if bytes.is_empty() {
            return Vec::new();
        }
        let path = self.0.iter().find(|(name, _)| name == "PATH");
        let path = path.map_or(DEFAULT_PATH.as_bytes(), |(_, value)| value.as_bytes());
        path.split(|byte| *byte == b':')
            .filter(|directory| directory.starts_with(b"/"))
            .filter_map(|directory| CString::new([directory, b"/", bytes].concat()).ok())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let environment = [
            ("PATH", "/a:rel::/b"),
            ("NAMZU_SANDBOX_ENVS", r#"{"X":"1","Y":"1"}"#),
            ("Z", "z"),
        ];
        Config::parse(
            ["--listen", "fd:3", "--user", "me"].map(Into::into),
            environment.map(|(name, value)| (name.into(), value.into())),
        )
        .unwrap()
    }

    fn text(environment: &Environment) -> Vec<String> {
        environment
            .block()
            .into_iter()
            .map(|variable| variable.into_string().unwrap())
            .collect()
    }

    #[test]
    fn the_last_of_a_name_wins_and_the_worker_leaks_nothing() {
        let envs = [
            ("Y".into(), "2".into()),
            ("NAMZU_COOKIE".into(), "forged".into()),
        ];
        let built =
            text(&Environment::build(&config(), EnvBase::Sandbox, "c", false, &envs).unwrap());
        assert_eq!(built[0], "NAMZU_COOKIE=c");
        for expected in [
            "PATH=/a:rel::/b",
            "USER=me",
            "LOGNAME=me",
            "X=1",
            "Y=2",
            "E2B_SANDBOX=true",
        ] {
            assert!(
                built.iter().any(|variable| variable == expected),
                "{expected} in {built:?}"
            );
        }
        assert!(
            !built
                .iter()
                .any(|variable| variable.starts_with("Z=") || variable.contains("forged"))
        );
        let built = text(&Environment::build(&config(), EnvBase::Worker, "c", true, &[]).unwrap());
        assert!(built.iter().any(|variable| variable == "Z=z"));
        assert!(
            built
                .iter()
                .any(|variable| variable == "TERM=xterm-256color")
        );
    }

    #[test]
    fn malformed_variables_are_refused() {
        for (name, value) in [("", "x"), ("A=B", "x"), ("A\0", "x"), ("A", "\0")] {
            let envs = [(name.to_owned(), value.to_owned())];
            Environment::build(&config(), EnvBase::Sandbox, "c", false, &envs).expect_err(name);
        }
    }

    #[test]
    fn relative_entries_of_path_are_skipped() {
        let built = Environment::build(&config(), EnvBase::Sandbox, "c", false, &[]).unwrap();
        assert_eq!(
            built.candidates(&c"tool".to_owned()),
            [c"/a/tool".to_owned(), c"/b/tool".to_owned()]
        );
        assert_eq!(
            built.candidates(&c"./tool".to_owned()),
            [c"./tool".to_owned()]
        );
        assert!(built.candidates(&c"".to_owned()).is_empty());
    }
}
