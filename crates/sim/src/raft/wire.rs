//! Wire: messages between members. Each is encoded and decoded on its way.

use std::time::Duration;

use bytes::Bytes;
use vetch_raft::{Body, Message};

use super::judge::{Judged, violated};
use super::world::{Occurrence, World};

impl World {
    pub(super) fn send(&mut self, message: Message) {
        let Some(to) = self.members.iter().position(|member| member.id == message.to) else { return };
        self.trace(|_| format!("{message:?}"));
        self.count(match &message.body {
            Body::Checkpoint { .. } => "sent to a checkpoint",
            Body::Rejected { .. } => "append rejected",
            Body::CampaignNow => "asked to campaign",
            _ => "messages",
        });
        if self.cuts.contains(&(message.from, message.to))
            || (!self.peace && self.rng.percent(self.plan.network.lost))
        {
            return;
        }
        let bytes = message.encode();
        if !self.peace && self.rng.percent(self.plan.network.doubled) {
            let wait = self.delay();
            self.after(wait, to, Occurrence::Message(bytes.clone()));
        }
        if matches!(message.body, Body::CampaignNow)
            && !self.peace
            && self.rng.percent(self.plan.network.orders)
        {
            let wait = self.soon(2000);
            self.after(wait, to, Occurrence::Message(bytes.clone()));
        }
        let wait = self.delay();
        self.after(wait, to, Occurrence::Message(bytes));
    }

    pub(super) fn arrive(&mut self, at: usize, now: Duration, bytes: &Bytes) -> Judged {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => return violated(format!("a message cannot be read: {error}")),
        };
        let Some(core) = self.members[at].core.as_mut() else { return Ok(()) };
        match core.receive(now, message) {
            Ok(()) => Ok(()),
            Err(error) => violated(format!("a member refuses a message of another: {error}")),
        }
    }

    /// How long a message takes.
    pub(super) fn delay(&mut self) -> Duration {
        let late = !self.peace && self.rng.percent(self.plan.network.late);
        Duration::from_micros(if late {
            self.rng.between(20_000, 4_000_000)
        } else {
            self.rng.between(200, 8_000)
        })
    }
}
