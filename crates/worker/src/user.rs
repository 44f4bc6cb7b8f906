//! The one user a worker serves: its own uid, under whatever names it has.

use std::path::PathBuf;

use crate::accounts;

/// Who commands run as.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct User {
    /// `USER` and `LOGNAME`.
    pub(crate) name: String,
    /// `HOME`, and the base of relative paths.
    pub(crate) home: PathBuf,
    /// The worker's uid.
    pub(crate) uid: u32,
    /// The worker's gid.
    pub(crate) gid: u32,
}

impl User {
    /// The worker's own user. `name` and `home` override what `/etc/passwd` says.
    pub(crate) fn own(name: Option<&str>, home: Option<PathBuf>) -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let entry = passwd().into_iter().find(|entry| entry.uid == uid);
        let (known_name, known_home) =
            entry.map_or((None, None), |entry| (Some(entry.name), Some(entry.home)));
        Self {
            name: name.map(str::to_owned).or(known_name).unwrap_or_else(|| {
                if uid == 0 {
                    "root".into()
                } else {
                    "user".into()
                }
            }),
            home: home
                .filter(|home| home.is_absolute())
                .or(known_home)
                .unwrap_or_else(|| PathBuf::from("/")),
            uid,
            gid,
        }
    }

    /// Whether a request for `name` is a request for this user: the configured name, or any
    /// account with the same uid.
    pub(crate) fn answers_to(&self, name: &str) -> bool {
        name == self.name
            || passwd()
                .into_iter()
                .any(|entry| entry.name == name && entry.uid == self.uid)
    }
}

struct Entry {
    name: String,
    uid: u32,
    home: PathBuf,
}

fn passwd() -> Vec<Entry> {
    // Commands may be able to write the file: what does not parse is skipped.
    let table = accounts::read(accounts::USERS);
    let text = String::from_utf8_lossy(&table);
    text.lines().filter_map(entry).collect()
}

fn entry(line: &str) -> Option<Entry> {
    let mut fields = line.split(':');
    let name = fields.next()?.to_owned();
    let uid = fields.nth(1)?.parse().ok()?;
    let home = PathBuf::from(fields.nth(2)?);
    Some(Entry { name, uid, home })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passwd_line_is_taken_apart() {
        let found = entry("user:x:1000:1001:A Name,,:/home/user:/bin/bash").unwrap();
        assert_eq!(
            (found.name.as_str(), found.uid, found.home),
            ("user", 1000, "/home/user".into())
        );
        assert!(entry("garbage").is_none());
        assert!(entry("a:b:c:d:e:f").is_none());
    }

    #[test]
    fn only_names_of_the_own_uid_are_answered_to() {
        let user = User::own(Some("me"), None);
        assert!(user.answers_to("me"));
        assert!(!user.answers_to("no such account"));
    }
}
