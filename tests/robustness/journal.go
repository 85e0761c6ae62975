package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/proto"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/tests/v3/robustness/model"
)

// The validators want the committed requests; Vetch's journal holds effects. For the model the two are the same: a
// revision becomes a transaction without conditions that makes the same puts and deletes. This reader is written
// from docs/format.md and shares no code with the server, so it also proves that page.

const (
	sector       = 512
	recordHeader = 48
	entryHeader  = 64
	partHeader   = 32
	kindWrites   = 1
)

var crc32c = crc32.MakeTable(crc32.Castagnoli)

// journal is what has been read so far.
type journal struct {
	requests []model.EtcdRequest
	nextSeq  uint64
	nextRev  int64
}

// readJournal reads all segments of a stopped server, which must still have everything since its first start.
func readJournal(dataDir string) ([]model.EtcdRequest, error) {
	names, err := filepath.Glob(filepath.Join(dataDir, "member", "journal", "*.journal"))
	if err != nil {
		return nil, err
	}
	// The names are numbers of fixed width, and Glob sorts.
	j := journal{nextSeq: 1, nextRev: 2}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := j.segment(data); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
	}
	// The model must arrive at the very revision that the journal claims.
	replay := model.NewReplay(j.requests)
	_, missing := replay.StateForRevision(j.nextRev - 1)
	_, beyond := replay.StateForRevision(j.nextRev)
	if missing != nil || beyond == nil {
		return nil, fmt.Errorf("the journal claims revision %d, its replay by the model does not end there", j.nextRev-1)
	}
	return j.requests, nil
}

func (j *journal) segment(data []byte) error {
	for at := 0; at < len(data) && string(data[at:at+4]) == "VJRN"; {
		header := data[at : at+recordHeader]
		if crc32.Checksum(header[:44], crc32c) != binary.LittleEndian.Uint32(header[44:]) {
			return fmt.Errorf("bad header at %d", at)
		}
		length := int(binary.LittleEndian.Uint32(header[28:]))
		if at+recordHeader+length > len(data) {
			return fmt.Errorf("the record at %d is longer than its file", at)
		}
		payload := data[at+recordHeader : at+recordHeader+length]
		if crc32.Checksum(payload, crc32c) != binary.LittleEndian.Uint32(header[32:]) {
			return fmt.Errorf("bad payload at %d", at)
		}
		for len(payload) > 0 {
			size := binary.LittleEndian.Uint32(payload)
			if err := j.entry(payload[:size]); err != nil {
				return fmt.Errorf("record at %d: %w", at, err)
			}
			payload = payload[size:]
		}
		at += (recordHeader + length + sector - 1) / sector * sector
	}
	return nil
}

func (j *journal) entry(entry []byte) error {
	seq := binary.LittleEndian.Uint64(entry[16:])
	base := int64(binary.LittleEndian.Uint64(entry[24:]))
	if seq != j.nextSeq {
		return fmt.Errorf("entry %d where %d belongs: was the journal trimmed?", seq, j.nextSeq)
	}
	if base != j.nextRev {
		return fmt.Errorf("entry %d begins at revision %d instead of %d", seq, base, j.nextRev)
	}
	j.nextSeq++
	for parts := entry[entryHeader:]; len(parts) > 0; {
		length := int(binary.LittleEndian.Uint32(parts[28:]))
		j.nextRev += int64(binary.LittleEndian.Uint32(parts[4:]))
		if entry[5] == kindWrites {
			if err := j.commands(parts[partHeader : partHeader+length]); err != nil {
				return fmt.Errorf("entry %d: %w", seq, err)
			}
		}
		parts = parts[partHeader+length:]
	}
	return nil
}

func (j *journal) commands(payload []byte) error {
	for len(payload) > 0 {
		tag, body, rest := framed(payload)
		payload = rest
		request := model.EtcdRequest{}
		switch tag {
		case 1:
			operations, err := changes(body)
			if err != nil {
				return err
			}
			request.Type, request.Txn = model.Txn, &model.TxnRequest{OperationsOnSuccess: operations}
		case 2:
			request.Type, request.LeaseGrant = model.LeaseGrant, &model.LeaseGrantRequest{LeaseID: number(body)}
		case 3:
			request.Type, request.LeaseRevoke = model.LeaseRevoke, &model.LeaseRevokeRequest{LeaseID: number(body)}
		case 4: // The time left of a lease is nothing the model knows.
			continue
		case 5:
			request.Type, request.Compact = model.Compact, &model.CompactRequest{Revision: number(body)}
		default:
			return fmt.Errorf("command %d is not expected in this trial", tag)
		}
		j.requests = append(j.requests, request)
	}
	return nil
}

func changes(body []byte) (operations []model.EtcdOperation, err error) {
	for len(body) > 0 {
		tag, change, rest := framed(body)
		body = rest
		switch tag {
		case 0:
			var kv mvccpb.KeyValue
			if err := proto.Unmarshal(change, &kv); err != nil {
				return nil, err
			}
			put := model.PutOptions{Key: string(kv.Key), Value: model.ToValueOrHash(string(kv.Value)), LeaseID: kv.Lease}
			operations = append(operations, model.EtcdOperation{Type: model.PutOperation, Put: put})
		case 1:
			deleted := model.DeleteOptions{Key: string(change)}
			operations = append(operations, model.EtcdOperation{Type: model.DeleteOperation, Delete: deleted})
		default:
			return nil, errors.New("the model knows no deletes of ranges")
		}
	}
	return operations, nil
}

// framed splits a tag, a length and that many bytes off the front.
func framed(bytes []byte) (tag byte, body, rest []byte) {
	end := 5 + int(binary.LittleEndian.Uint32(bytes[1:]))
	return bytes[0], bytes[5:end], bytes[end:]
}

func number(body []byte) int64 {
	return int64(binary.LittleEndian.Uint64(body))
}
