//! Resolves a container layout and reports everything that is wrong with it at once.

use std::path::Path;

use namzu_types::{
    Access, ContainerSandboxLayout, ErrorCode, MountSource, Phase, SANDBOX_DEFAULT_SKILLS_PARENT,
};

use crate::{Error, Result};

/// Directories that no mount may hide: without them nothing inside starts, or the worker is gone.
const SYSTEM: &[&str] = &[
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run",
    "/sbin", "/sys", "/usr", "/var/run",
];

/// A layout that keeps its rules. Every path is resolved; `outputs` is first.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidLayout {
    mounts: Vec<ResolvedMount>,
}

/// One mount, with nothing left to default.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedMount {
    /// The mount's name in the configuration: `outputs`, or `skills[ID]`.
    pub name: String,
    /// Where its data comes from.
    pub source: MountSource,
    /// Absolute, normal path inside.
    pub container_path: String,
    /// Whether the sandbox may write to it.
    pub access: Access,
}

impl ValidLayout {
    /// Resolves `layout` and looks for its host directories on this host.
    ///
    /// # Errors
    ///
    /// `layout_invalid` whose reasons are every violation.
    pub fn new(layout: &ContainerSandboxLayout) -> Result<Self> {
        let mut reasons = Vec::new();
        let mounts = resolve(layout, &mut reasons);
        for mount in &mounts {
            check_path(mount, &mut reasons);
            check_source(mount, &mut reasons);
        }
        check_overlaps(&mounts, &mut reasons);
        if reasons.is_empty() {
            return Ok(Self { mounts });
        }
        Err(
            Error::new(ErrorCode::LayoutInvalid, "invalid container layout")
                .with_reasons(reasons)
                .during(Phase::Configure),
        )
    }

    /// Every mount, `outputs` first.
    #[must_use]
    pub fn mounts(&self) -> &[ResolvedMount] {
        &self.mounts
    }

    /// The workspace root inside: where `outputs` is.
    #[must_use]
    pub fn workspace(&self) -> &str {
        // `new` refuses a layout without outputs, which `resolve` puts first.
        self.mounts
            .first()
            .map_or(namzu_types::SANDBOX_DEFAULT_OUTPUTS_PATH, |outputs| {
                &outputs.container_path
            })
    }
}

fn resolve(layout: &ContainerSandboxLayout, reasons: &mut Vec<String>) -> Vec<ResolvedMount> {
    let mut mounts = Vec::new();
    for (name, default, access, mount) in layout.named_mounts() {
        match mount {
            Some(mount) => mounts.push(ResolvedMount {
                name: name.to_owned(),
                source: mount.source.clone(),
                container_path: mount
                    .container_path
                    .clone()
                    .unwrap_or_else(|| default.to_owned()),
                access,
            }),
            None if name == "outputs" => {
                reasons.push("`outputs`: is missing; without it nothing is kept".to_owned());
            }
            None => {}
        }
    }
    for (index, skill) in layout.skills.iter().enumerate() {
        let id = skill.id.as_str();
        let shown = id.escape_debug();
        if !is_skill_id(id) {
            reasons.push(format!(
                "`skills[{index}].id`: `{shown}` is no skill id: letters, digits, `_`, `.` and \
                 `-`, without `..`"
            ));
        }
        if layout
            .skills
            .iter()
            .take(index)
            .any(|earlier| earlier.id == id)
        {
            reasons.push(format!("`skills[{index}].id`: `{shown}` is there already"));
        }
        mounts.push(ResolvedMount {
            name: format!("skills[{shown}]"),
            source: skill.source.clone(),
            container_path: skill
                .container_path
                .clone()
                .unwrap_or_else(|| format!("{SANDBOX_DEFAULT_SKILLS_PARENT}/{id}")),
            access: Access::ReadOnly,
        });
    }
    mounts
}

fn is_skill_id(id: &str) -> bool {
    // `.` alone is the skills' parent itself.
    !id.is_empty()
        && id != "."
        && !id.contains("..")
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

fn check_path(mount: &ResolvedMount, reasons: &mut Vec<String>) {
    let ResolvedMount {
        name,
        container_path: path,
        ..
    } = mount;
    let shown = path.escape_debug();
    let mut refuse = |why: &str| {
        reasons.push(format!("`{name}.containerPath`: `{shown}` {why}"));
    };
    if !path.starts_with('/') {
        return refuse("is not absolute");
    }
    if path.contains(|c: char| c.is_control()) {
        return refuse("holds a control character");
    }
    if path == "/" {
        return refuse("is the root itself");
    }
    if !is_plain(path) {
        return refuse("is not in its plain form: no `//`, `.`, `..` or `/` at the end");
    }
    if let Some(system) = SYSTEM
        .iter()
        .find(|system| is_within(path, system) || is_within(system, path))
    {
        refuse(&format!("would hide the system's `{system}`"));
    }
}

fn check_source(mount: &ResolvedMount, reasons: &mut Vec<String>) {
    let MountSource::HostDir { host_path } = &mount.source else {
        return;
    };
    let path = Path::new(host_path);
    let why = if !path.is_absolute() {
        "is not absolute"
    } else {
        match path.metadata() {
            Ok(found) if found.is_dir() => return,
            Ok(_) => "is no directory",
            Err(_) => "does not exist or cannot be looked at",
        }
    };
    reasons.push(format!(
        "`{}.source.hostPath`: `{}` {why}",
        mount.name,
        host_path.escape_debug()
    ));
}

fn check_overlaps(mounts: &[ResolvedMount], reasons: &mut Vec<String>) {
    // A path that is refused already has no place, so it overlaps nothing.
    let mounts: Vec<_> = mounts
        .iter()
        .filter(|mount| is_plain(&mount.container_path))
        .collect();
    for (index, mount) in mounts.iter().enumerate() {
        for earlier in mounts.iter().take(index) {
            let (one, other) = (&mount.container_path, &earlier.container_path);
            let shown = one.escape_debug();
            let why = if one == other {
                format!("is `{}`'s path too", earlier.name)
            } else if is_within(one, other) {
                format!(
                    "lies inside `{}`'s path `{}`",
                    earlier.name,
                    other.escape_debug()
                )
            } else if is_within(other, one) {
                format!("holds `{}`'s path `{}`", earlier.name, other.escape_debug())
            } else {
                continue;
            };
            reasons.push(format!("`{}.containerPath`: `{shown}` {why}", mount.name));
        }
    }
}

/// Whether `path` is absolute and has only this spelling, so that comparing text finds every
/// overlap.
fn is_plain(path: &str) -> bool {
    path.strip_prefix('/')
        .is_some_and(|rest| rest.split('/').all(|part| !matches!(part, "" | "." | "..")))
}

/// Whether `path` is `parent` or below it.
fn is_within(path: &str, parent: &str) -> bool {
    path.strip_prefix(parent)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
