//! `backends`: which there are, and what they can do here.

use namzu_sandbox::types::{Capabilities, Strength};
use namzu_sandbox::{BackendInfo, backends};

use crate::context::Context;
use crate::escape::Escaped;
use crate::failure::Failure;
use crate::table::Table;

pub(crate) fn run(cx: &Context) -> Result<u8, Failure> {
    let found = backends();
    if cx.out.json {
        cx.out.json(&found)?;
    } else {
        cx.out.text(table(&found))?;
    }
    Ok(0)
}

fn table(found: &[BackendInfo]) -> Table<3> {
    let mut table = Table::new(["BACKEND", "STATUS", "AT BEST"]);
    for info in found {
        let status = serde_json::to_value(info.status).unwrap_or_default();
        let detail = match (&info.capabilities, &info.reason) {
            (Some(capabilities), _) => held(capabilities),
            (None, Some(reason)) => Escaped(reason).to_string(),
            (None, None) => String::new(),
        };
        table.row([
            info.label.clone(),
            status.as_str().unwrap_or_default().to_owned(),
            detail,
        ]);
    }
    table
}

/// What is held at all, and how firmly.
fn held(capabilities: &Capabilities) -> String {
    let controls = [
        ("filesystem", capabilities.filesystem),
        ("network", capabilities.egress.deny_all),
        ("processes", capabilities.processes),
        ("memory", capabilities.memory),
        ("pids", capabilities.pids),
        ("cpu", capabilities.cpu),
        ("disk", capabilities.disk),
        ("lifetime", capabilities.lifetime),
        ("syscalls", capabilities.syscalls),
    ];
    let parts: Vec<_> = [Strength::Enforced, Strength::Declared, Strength::BestEffort]
        .into_iter()
        .filter_map(|strength| {
            let names: Vec<_> = controls
                .iter()
                .filter(|(_, held)| *held == strength)
                .map(|(name, _)| *name)
                .collect();
            (!names.is_empty()).then(|| format!("{strength}: {}", names.join(" ")))
        })
        .collect();
    let mut walls = if parts.is_empty() {
        "no wall at all".to_owned()
    } else {
        parts.join("; ")
    };
    walls.push_str(&format!("; egress: {}", policies(capabilities)));
    walls
}

/// The egress policies that mean something there.
pub(crate) fn policies(capabilities: &Capabilities) -> String {
    let egress = &capabilities.egress;
    let held = [
        ("deny-all", egress.deny_all),
        ("static", egress.static_hosts),
        ("resolver", egress.resolver),
    ];
    let names: Vec<_> = held
        .into_iter()
        .filter(|(_, strength)| *strength != Strength::None)
        .map(|(name, _)| name)
        .chain(egress.allow_all.then_some("allow-all"))
        .collect();
    names.join(" ")
}
