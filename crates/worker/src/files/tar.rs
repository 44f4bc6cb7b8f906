//! `/ext/v1/tar`: trees in and out as tar streams.

mod format;
mod pack;
mod parse;
mod unpack;

#[cfg(test)]
mod tests;

pub(crate) use pack::Pack;
pub(crate) use unpack::Unpack;
