//! The engine that has `bwrap` build the wall.

pub(crate) mod args;
pub(crate) mod channel;
pub(crate) mod data;
pub(crate) mod detach;
pub(crate) mod doors;
pub(crate) mod jail;
pub(crate) mod launch;
pub(crate) mod locate;
pub(crate) mod proof;
pub(crate) mod running;
pub(crate) mod toolchain;
pub(crate) mod view;
pub(crate) mod walk;
pub(crate) mod workspace;
