//! Where a copy goes, as `cp` would have it: into a directory that exists, else by that name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namzu_sandbox::client::FileKind;
use namzu_sandbox::{Error, ErrorCode, Sandbox};

use super::Options;
use crate::host_path::{self, Place};

/// The path of a copy of `name` at `dst` inside.
///
/// `None` for `name` means the content of a directory, which goes into `dst` itself.
pub(super) async fn inside(
    sandbox: &Sandbox,
    dst: &Path,
    name: Option<&OsStr>,
) -> Result<PathBuf, Error> {
    let Some(name) = name else {
        return Ok(dst.to_owned());
    };
    let existing = match sandbox.files().stat(dst).await {
        Ok(info) => info.kind == FileKind::Directory,
        Err(err) if err.code() == ErrorCode::NotFound => false,
        Err(err) => return Err(err),
    };
    if existing || ends_with_slash(dst) {
        Ok(dst.join(name))
    } else {
        Ok(dst.to_owned())
    }
}

/// The place of a copy of `name` at `dst` on the host.
pub(super) fn on_host(dst: &Path, name: Option<&OsStr>, options: Options) -> Result<Place, Error> {
    let directory = host_path::is_typed_as_directory(dst);
    let dst = place(dst, options)?;
    let Some(name) = name else {
        return Ok(dst);
    };
    dst.within(name, directory).map_err(hint)
}

/// Resolves a path of the host.
pub(super) fn place(path: &Path, options: Options) -> Result<Place, Error> {
    let found = if options.follow {
        Place::follow(path)
    } else {
        Place::find(path)
    };
    found.map_err(hint)
}

/// Says what helps where a link was refused.
pub(super) fn hint(err: Error) -> Error {
    match err.code() {
        ErrorCode::PathRefused => err.with_hint("--follow follows it"),
        _ => err,
    }
}

/// The name that a copy of `path` takes; `None` where it means the content: `.`, `/`, `x/.`, `x/..`.
pub(super) fn name(path: &Path) -> Option<&OsStr> {
    // `file_name` looks through a trailing `/.`, which here means the content.
    if path.as_os_str().as_bytes().ends_with(b"/.") {
        return None;
    }
    path.file_name()
}

fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options = Options {
        max_size: 1,
        follow: false,
        progress: false,
    };

    #[test]
    fn a_name_is_one_plain_component() {
        for (path, name) in [
            ("a", Some("a")),
            ("/x/a", Some("a")),
            ("a/", Some("a")),
            ("a/.", None),
            (".", None),
            ("..", None),
            ("a/..", None),
            ("a/../", None),
            ("/", None),
            ("", None),
        ] {
            let got = super::name(Path::new(path));
            assert_eq!(got, name.map(OsStr::new), "{path}");
        }
    }

    #[test]
    fn a_directory_takes_the_copy_in_and_any_other_name_is_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let name = Some(OsStr::new("n"));
        let new = dir.path().join("new");
        for (dst, name, path) in [
            (dir.path(), name, dir.path().join("n")),
            (&new, name, new.clone()),
            (dir.path(), None, dir.path().to_owned()),
        ] {
            let place = on_host(dst, name, OPTIONS).unwrap();
            assert_eq!(place.path(), path);
        }
        let err = on_host(&new.join(""), name, OPTIONS).unwrap_err();
        assert_eq!(err.code(), ErrorCode::NotFound);
    }

    #[test]
    fn a_planted_symlink_is_no_destination() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("n");
        std::os::unix::fs::symlink("/etc", &link).unwrap();
        let end = |end: &str| PathBuf::from(format!("{}{end}", link.display()));
        for (dst, name) in [
            (link.clone(), Some("x")),
            (dir.path().to_owned(), Some("n")),
            (end("/"), Some("x")),
            (end("/."), Some("x")),
            (end("/"), None),
            (end("/."), None),
            (end("/deep/x"), Some("x")),
        ] {
            let err = on_host(&dst, name.map(OsStr::new), OPTIONS).unwrap_err();
            assert_eq!(err.code(), ErrorCode::PathRefused, "{}", dst.display());
            assert!(err.hint().is_some());
        }
        let follow = Options {
            follow: true,
            ..OPTIONS
        };
        let place = on_host(&link, Some(OsStr::new("x")), follow).unwrap();
        assert_eq!(place.path(), Path::new("/etc/x"));
    }
}
