//! The codec: requests are decoded by prost, responses encode themselves.

use std::marker::PhantomData;

use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::codec::buffers;
use crate::wire::WireMessage;

/// Encodes `E`, decodes `D`.
#[derive(Debug)]
pub struct WireCodec<E, D>(PhantomData<(E, D)>);

/// The encoding half of [`WireCodec`].
#[derive(Debug)]
pub struct WireEncoder<E>(PhantomData<E>);

/// The decoding half of [`WireCodec`].
#[derive(Debug)]
pub struct WireDecoder<D>(PhantomData<D>);

impl<E, D> Default for WireCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E, D> Codec for WireCodec<E, D>
where
    E: WireMessage,
    D: prost::Message + Default + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = WireEncoder<E>;
    type Decoder = WireDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        WireEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        WireDecoder(PhantomData)
    }
}

impl<E: WireMessage> Encoder for WireEncoder<E> {
    type Item = E;
    type Error = Status;

    fn encode(&mut self, item: E, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // A list can be hundreds of megabytes: growing the buffer by doubling would copy all of it
        // again.
        buf.reserve(item.encoded_len());
        item.encode(buf);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}

impl<D: prost::Message + Default> Decoder for WireDecoder<D> {
    type Item = D;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<D>, Status> {
        match D::decode(buf) {
            Ok(message) => Ok(Some(message)),
            Err(error) => Err(Status::internal(error.to_string())),
        }
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}
