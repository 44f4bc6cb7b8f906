//! Files in memory.

use std::collections::BTreeMap;

use namzu_protocol::connect::Code;

use crate::fake::machine::WORKSPACE;
use crate::fake::reply::Refusal;

/// One entry.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Directory,
    File(Vec<u8>),
}

/// Absolute, normalised paths and what is there.
#[derive(Clone, Debug)]
pub(crate) struct Tree(BTreeMap<String, Node>);

impl Default for Tree {
    fn default() -> Self {
        Self(BTreeMap::from([
            ("/".to_owned(), Node::Directory),
            (WORKSPACE.to_owned(), Node::Directory),
        ]))
    }
}

/// The absolute form of a path, `..` resolved and never above the root.
pub(crate) fn absolute(path: &str, cwd: &str) -> String {
    let joined = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{cwd}/{path}")
    };
    let mut parts = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The directory that holds a path.
fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

fn missing(path: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("no such file: {path}"))
}

impl Tree {
    pub(crate) fn get(&self, path: &str) -> Result<&Node, Refusal> {
        self.0.get(path).ok_or_else(|| missing(path))
    }

    pub(crate) fn read(&self, path: &str) -> Result<&[u8], Refusal> {
        match self.get(path)? {
            Node::File(bytes) => Ok(bytes),
            Node::Directory => Err(Refusal::new(
                Code::InvalidArgument,
                format!("is a directory: {path}"),
            )),
        }
    }

    /// Makes a directory with its parents; whether anything was made.
    pub(crate) fn make_dir(&mut self, path: &str) -> Result<bool, Refusal> {
        match self.0.get(path) {
            Some(Node::Directory) => return Ok(false),
            Some(Node::File(_)) => {
                return Err(Refusal::new(
                    Code::InvalidArgument,
                    format!("is a file: {path}"),
                ));
            }
            None => {}
        }
        self.make_dir(parent(path))?;
        self.0.insert(path.to_owned(), Node::Directory);
        Ok(true)
    }

    /// Writes a file, its parents made.
    pub(crate) fn write(&mut self, path: &str, bytes: Vec<u8>, cut: bool) -> Result<(), Refusal> {
        self.make_dir(parent(path))?;
        match self.0.get_mut(path) {
            Some(Node::Directory) => {
                return Err(Refusal::new(
                    Code::InvalidArgument,
                    format!("is a directory: {path}"),
                ));
            }
            Some(Node::File(old)) if !cut && old.len() > bytes.len() => {
                old[..bytes.len()].copy_from_slice(&bytes);
            }
            _ => {
                self.0.insert(path.to_owned(), Node::File(bytes));
            }
        }
        Ok(())
    }

    pub(crate) fn append(&mut self, path: &str, bytes: &[u8]) -> Result<(), Refusal> {
        let mut whole = self.read(path).map(<[u8]>::to_vec).unwrap_or_default();
        whole.extend_from_slice(bytes);
        self.write(path, whole, true)
    }

    /// Every entry below a directory, to this depth.
    pub(crate) fn list(&self, path: &str, depth: u32) -> Result<Vec<(String, Node)>, Refusal> {
        if matches!(self.get(path)?, Node::File(_)) {
            return Err(Refusal::new(
                Code::InvalidArgument,
                format!("is no directory: {path}"),
            ));
        }
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let depth = usize::try_from(depth.max(1)).unwrap_or(usize::MAX);
        Ok(self
            .0
            .iter()
            .filter(|(name, _)| {
                name.strip_prefix(&prefix)
                    .is_some_and(|rest| !rest.is_empty() && rest.split('/').count() <= depth)
            })
            .map(|(name, node)| (name.clone(), node.clone()))
            .collect())
    }

    /// Removes an entry with everything below it. Idempotent.
    pub(crate) fn remove(&mut self, path: &str) {
        let below = format!("{path}/");
        self.0
            .retain(|name, _| name != path && !name.starts_with(&below));
    }

    /// Moves an entry with everything below it.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<(), Refusal> {
        self.get(from)?;
        self.make_dir(parent(to))?;
        let below = format!("{from}/");
        let moved: Vec<_> = self
            .0
            .iter()
            .filter(|(name, _)| *name == from || name.starts_with(&below))
            .map(|(name, node)| (format!("{to}{}", &name[from.len()..]), node.clone()))
            .collect();
        self.remove(from);
        self.remove(to);
        self.0.extend(moved);
        Ok(())
    }
}
