//! Names that lead inward by what they are.

use crate::Name;

/// The ends of names that never mean a public host (RFC 6761 and its successors), and those that container
/// engines and clouds give to what is near.
const ENDS: &[&str] = &[
    "localhost",
    "localdomain",
    "ip6-localhost",
    "ip6-loopback",
    "internal",
    "local",
    "arpa",
    "onion",
];

/// Whether `name` never means a public host: only a rule with `inward` reaches it.
pub(super) fn is_special(name: &Name) -> bool {
    let last = name.labels_from_root().next();
    last.is_some_and(|last| ENDS.contains(&last))
}
