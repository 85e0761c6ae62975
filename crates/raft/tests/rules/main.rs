//! The rules of a member, one by one, on members in memory whose messages and disks the test moves.

mod group;
mod hostile;
mod leases;
mod syncs;
