//! `ls`: running sandboxes, or the files in one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use namzu_sandbox::client::{FileInfo, FileKind};
use namzu_sandbox::core::backend_label;
use namzu_sandbox::types::SandboxInfo;
use serde_json::{Value, json};

use crate::args::LsArgs;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Output;
use crate::parse::Location;
use crate::table::Table;

pub(crate) async fn run(cx: &mut Context, args: &LsArgs) -> Result<u8, Failure> {
    match &args.path {
        None => sandboxes(cx).await?,
        Some(Location::Sandbox { id, path }) => {
            let sandbox = cx.connect(id).await?;
            let list = async { sandbox.files().list(path, 1).await };
            let found = cx.signals.unless(list).await?;
            files(cx.out, &found)?;
        }
        Some(Location::Host(_) | Location::Standard) => {
            return Err(Failure::Usage(
                "expected ID:PATH, a directory in a running sandbox".to_owned(),
            ));
        }
    }
    Ok(0)
}

async fn sandboxes(cx: &mut Context) -> Result<(), Failure> {
    let places = cx.places()?;
    let list = async {
        let mut found = Vec::new();
        for provider in places {
            found.extend(provider.list().await?);
        }
        Ok(found)
    };
    let mut found: Vec<SandboxInfo> = cx.signals.unless(list).await?;
    found.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
    if cx.out.json {
        return cx
            .out
            .json(&found.iter().map(sandbox_json).collect::<Vec<_>>());
    }
    let mut table = Table::new(["ID", "BACKEND", "AGE", "ENDS IN", "LABELS"]);
    let now = SystemTime::now();
    for info in &found {
        let labels: Vec<_> = info
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        table.row([
            info.id.to_string(),
            backend_label(info.tier, &info.backend),
            span(now.duration_since(info.created).unwrap_or_default()),
            info.expires.map_or_else(String::new, |end| {
                span(end.duration_since(now).unwrap_or_default())
            }),
            cx.out.name(&labels.join(",")),
        ]);
    }
    cx.out.text(table)
}

fn sandbox_json(info: &SandboxInfo) -> Value {
    json!({
        "id": info.id,
        "tier": info.tier,
        "backend": info.backend,
        "createdUnixMs": unix_ms(info.created),
        "expiresUnixMs": info.expires.map(unix_ms),
        "labels": info.labels,
    })
}

fn files(out: Output, found: &[FileInfo]) -> Result<(), Failure> {
    if out.json {
        return out.json(&found.iter().map(file_json).collect::<Vec<_>>());
    }
    let mut table = Table::headless();
    for info in found {
        let mut name = out.name(&file_name(info));
        if let Some(target) = &info.link {
            name.push_str(" -> ");
            name.push_str(&out.name(&target.to_string_lossy()));
        }
        table.row([mode(info), info.size.to_string(), name]);
    }
    out.text(table)
}

/// Not the worker's word for it: the last component of the path it gave.
fn file_name(info: &FileInfo) -> String {
    info.path.file_name().map_or_else(
        || info.path.to_string_lossy().into_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn file_json(info: &FileInfo) -> Value {
    json!({
        "name": file_name(info),
        "path": info.path.to_string_lossy(),
        "kind": kind(info.kind),
        "size": info.size,
        "mode": info.mode & 0o7777,
        "owner": info.owner,
        "group": info.group,
        "modifiedUnixMs": info.modified.map(unix_ms),
        "link": info.link.as_ref().map(|link| link.to_string_lossy()),
    })
}

const fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        _ => "other",
    }
}

/// Kind and permissions as `ls -l` writes them.
fn mode(info: &FileInfo) -> String {
    let kind = match info.kind {
        _ if info.link.is_some() => 'l',
        FileKind::File => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        _ => '?',
    };
    let mut text = String::from(kind);
    for shift in [6, 3, 0] {
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            let set = info.mode >> shift & bit != 0;
            text.push(if set { letter } else { '-' });
        }
    }
    text
}

fn unix_ms(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis()
}

/// The two largest units of a time, e.g. `3h12m`.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => format!("{minutes}m{rest}s"),
        (0, _, _) => format!("{hours}h{minutes}m"),
        _ => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_by_its_two_largest_units() {
        for (seconds, shown) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m1s"),
            (3_600, "1h0m"),
            (90_061, "1d1h"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), shown);
        }
    }
}
