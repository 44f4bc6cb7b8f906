//! The owner label of a cgroup: its directory's name.

use std::io;

use namzu_core::owner::ProcessName;
use namzu_types::SandboxId;
use rustix::rand::{GetRandomFlags, getrandom};

const PREFIX: &str = "namzu-";

/// `namzu-s-NAMESPACE-PID-START-ID.RANDOM`; `d` in place of `s` where the sandbox may outlive its
/// maker. Random, because two sandboxes of one maker may be given the same id by mistake, and the
/// failure of the second must not remove the cgroup of the first.
pub(super) fn directory(maker: ProcessName, detached: bool, id: &SandboxId) -> io::Result<String> {
    let mut random = [0; 4];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let kind = if detached { 'd' } else { 's' };
    let random = u32::from_ne_bytes(random);
    Ok(format!(
        "{PREFIX}{kind}-{}-{id}.{random:08x}",
        maker.label()
    ))
}

/// The maker, and whether the sandbox may outlive it.
pub(super) fn parse(name: &str) -> Option<(ProcessName, bool)> {
    let (kind, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let detached = match kind {
        "s" => false,
        "d" => true,
        _ => return None,
    };
    let (maker, _id) = ProcessName::parse(rest)?;
    Some((maker, detached))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_names_its_maker_and_no_two_are_the_same() {
        let own = ProcessName::own().unwrap();
        let id: SandboxId = "a-b-c".parse().unwrap();
        for detached in [false, true] {
            let name = directory(own, detached, &id).unwrap();
            assert_eq!(parse(&name), Some((own, detached)));
            assert_ne!(directory(own, detached, &id).unwrap(), name);
        }
        for strange in [
            "",
            "namzu-",
            "namzu-s-1-2-3",
            "namzu-x-1-2-3-a",
            "system.slice",
        ] {
            assert_eq!(parse(strange), None, "{strange}");
        }
    }
}
