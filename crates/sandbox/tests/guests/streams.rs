//! A lot at once: uploads and downloads that are compared, and what they cost the boundary.

use std::fs;
use std::sync::Arc;

use crate::bench::{Bench, Case};
use crate::guest::Way;
use crate::place::Place;

/// 256 MiB out, which nobody needs to have at once.
const UPLOAD: &str = "
    out() { yes 0123456789abcde | head -c 268435456; }
    here=$(out | sha256sum | cut -d' ' -f1)
    there=$(out | curl -fsS -T - https://$HOST/upload)
    echo \"$there\"
    test \"$there\" = \"$here 268435456\"";

/// And 256 MiB in.
const DOWNLOAD: &str = "
    here=$(curl -fsS https://$HOST/big | sha256sum | cut -d' ' -f1)
    there=$(curl -fsS https://$HOST/big.sha256)
    test \"$here\" = \"$there\"";

/// Much less than what is sent. Other tests run in this process, with sandboxes of their own.
const FLAT: u64 = 96 << 20;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for way in [Way::Passthrough, Way::Ended] {
        for (name, script) in [("upload_256_mib", UPLOAD), ("download_256_mib", DOWNLOAD)] {
            cases.push(Case {
                name: format!("{name}::{}", way.name()),
                needs: vec!["curl", "yes", "sha256sum"],
                modules: Vec::new(),
                test: Box::new(move |bench| carry(bench, way, script)),
            });
        }
    }
    cases
}

fn carry(bench: &Arc<Bench>, way: Way, script: &str) {
    let place = Place::open(bench, way);
    let trust = if way == Way::Ended {
        ""
    } else {
        "export CURL_CA_BUNDLE=$GUEST/ca.pem"
    };
    // The highest mark is as high as now from here on.
    fs::write("/proc/self/clear_refs", "5").expect("a mark that can be reset");
    let before = highest();
    place.run(&format!("{trust}\n{script}")).ok();
    let grown = highest().saturating_sub(before);
    assert!(grown < FLAT, "{} MiB", grown >> 20);
    match way {
        Way::Ended => place.was_ended(),
        Way::Passthrough | Way::Denied => place.was_passed_through(),
    }
}

/// The most memory that this process had, in bytes.
fn highest() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("a number")
        * 1024
}
