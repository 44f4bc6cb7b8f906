//! Rules by host: a trie of labels from the root, and ranges of addresses by length of prefix.
//!
//! A look-up costs one hash per label as far as rules go, however many rules there are and however many
//! labels somebody inside sends.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::{Pattern, Rule};
use crate::{Host, Name};

/// How closely a rule names a host; the larger, the closer.
pub(super) type Closeness = u16;

type Group = Vec<Arc<Rule>>;

#[derive(Debug, Default)]
struct Node {
    children: HashMap<Box<str>, usize>,
    /// Of `x`.
    exact: Group,
    /// Of `**.x`, at `x` itself.
    apex: Group,
    /// Of `*.x` and `**.x`, below `x`.
    below: Group,
}

/// Rules by host.
#[derive(Debug)]
pub(super) struct Table {
    /// The first is the root.
    nodes: Vec<Node>,
    ranges: HashMap<IpNet, Group>,
    /// The lengths that occur, ascending.
    prefixes_v4: Vec<u8>,
    prefixes_v6: Vec<u8>,
    count: usize,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
            ranges: HashMap::new(),
            prefixes_v4: Vec::new(),
            prefixes_v6: Vec::new(),
            count: 0,
        }
    }
}

impl Table {
    /// Adds a rule.
    pub(super) fn insert(&mut self, pattern: &Pattern, rule: &Arc<Rule>) {
        self.count += 1;
        match pattern {
            Pattern::Exact(name) => self.node(name).exact.push(Arc::clone(rule)),
            Pattern::Below(base) => self.node(base).below.push(Arc::clone(rule)),
            Pattern::Within(base) => {
                let node = self.node(base);
                node.apex.push(Arc::clone(rule));
                node.below.push(Arc::clone(rule));
            }
            Pattern::Range(range) => {
                let prefixes = match range {
                    IpNet::V4(_) => &mut self.prefixes_v4,
                    IpNet::V6(_) => &mut self.prefixes_v6,
                };
                if let Err(place) = prefixes.binary_search(&range.prefix_len()) {
                    prefixes.insert(place, range.prefix_len());
                }
                self.ranges
                    .entry(*range)
                    .or_default()
                    .push(Arc::clone(rule));
            }
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Shows every group of rules whose pattern names `host`, the closest last.
    pub(super) fn visit<'a>(&'a self, host: &Host, see: impl FnMut(Closeness, &'a [Arc<Rule>])) {
        match host {
            Host::Name(name) => self.visit_name(name, see),
            Host::Address(address) => self.visit_address(*address, see),
        }
    }

    fn visit_name<'a>(&'a self, name: &Name, mut see: impl FnMut(Closeness, &'a [Arc<Rule>])) {
        let mut node = &self.nodes[0];
        let mut closeness = 0;
        for label in name.labels_from_root() {
            if !node.below.is_empty() {
                see(closeness, &node.below);
            }
            let Some(child) = node.children.get(label) else {
                return;
            };
            node = &self.nodes[*child];
            closeness += 2;
        }
        for group in [&node.apex, &node.exact] {
            if !group.is_empty() {
                see(closeness, group);
            }
            closeness += 1;
        }
    }

    fn visit_address<'a>(
        &'a self,
        address: IpAddr,
        mut see: impl FnMut(Closeness, &'a [Arc<Rule>]),
    ) {
        let prefixes = match address {
            IpAddr::V4(_) => &self.prefixes_v4,
            IpAddr::V6(_) => &self.prefixes_v6,
        };
        for prefix in prefixes {
            let Ok(range) = IpNet::new(address, *prefix) else {
                continue;
            };
            if let Some(group) = self.ranges.get(&range.trunc()) {
                see(Closeness::from(*prefix), group);
            }
        }
    }

    fn node(&mut self, name: &Name) -> &mut Node {
        let mut at = 0;
        for label in name.labels_from_root() {
            let new = self.nodes.len();
            at = *self.nodes[at].children.entry(label.into()).or_insert(new);
            if at == new {
                self.nodes.push(Node::default());
            }
        }
        &mut self.nodes[at]
    }
}
