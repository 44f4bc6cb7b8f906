//! Users and groups of the place the worker runs in, read from its own tables.

use std::collections::HashMap;

use crate::accounts;

/// The names behind ids; each table is read when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Names {
    users: Option<HashMap<u32, String>>,
    groups: Option<HashMap<u32, String>>,
}

impl Names {
    /// The user's name, or the number where there is none.
    pub(crate) fn user(&mut self, uid: u32) -> String {
        let users = self.users.get_or_insert_with(|| by_id(accounts::USERS));
        users.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// The group's name, or the number where there is none.
    pub(crate) fn group(&mut self, gid: u32) -> String {
        let groups = self.groups.get_or_insert_with(|| by_id(accounts::GROUPS));
        groups.get(&gid).cloned().unwrap_or_else(|| gid.to_string())
    }
}

fn by_id(path: &str) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for fields in fields(&accounts::read(path)) {
        if let (Some(name), Some(id)) = (fields.first(), fields.get(2).and_then(|id| number(id))) {
            names
                .entry(id)
                .or_insert_with(|| String::from_utf8_lossy(name).into_owned());
        }
    }
    names
}

fn fields(table: &[u8]) -> impl Iterator<Item = Vec<&[u8]>> {
    table
        .split(|byte| *byte == b'\n')
        .map(|line| line.split(|byte| *byte == b':').collect())
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}
