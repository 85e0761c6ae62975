//! Path: the revisions explained so far and the world they lead to, with a way back.

use vetch_model::Request;

use super::Maker;
use crate::history::History;
use crate::world::World;

#[derive(Default)]
pub(super) struct Path {
    pub(super) world: World,
    /// The makers of the revisions from 2 on.
    pub(super) makers: Vec<Maker>,
    /// For the revisions that a later one looks back at: how many revisions were explained then,
    /// and a digest of the state and everything before.
    pub(super) past: Vec<(usize, u64)>,
}

impl Path {
    /// The revision that is to be explained next.
    pub(super) fn next(&self) -> i64 {
        self.makers.len() as i64 + 2
    }

    /// Goes back to where only so many revisions were explained, whatever became of the world
    /// since.
    pub(super) fn back_to(&mut self, length: usize) {
        self.makers.truncate(length);
        while self.past.pop_if(|(explained, _)| *explained > length).is_some() {}
        self.world.rewind(length as i64 + 1);
    }
}

/// What a maker did.
pub(super) fn request(history: &History, maker: Maker) -> Request {
    match maker {
        Maker::Answered(index) | Maker::Unknown(index) => history.operations[index].request.clone(),
        Maker::Expiry(id) => Request::LeaseRevoke { id },
    }
}
