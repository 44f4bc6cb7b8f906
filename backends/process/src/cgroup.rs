//! Memory, process and processor limits by the kernel's control groups, of either version.

mod find;
mod group;
mod name;

pub(crate) use self::find::Hierarchy;
pub(crate) use self::group::{Group, oom_kills, remove};
