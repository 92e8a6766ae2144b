package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	client "github.com/nats-io/nats.go"

	"github.com/lingserve/lingserve/tape"
)

// A blob of a tape is a message whose subject has the hash of what it holds. What does not fit into one is in others, which
// are stored before it, each with its number behind the subject.

const headerBlob = "Tape-Blob" // a blobRecord

type blobRecord struct {
	Size  int64    `json:"size"`
	Part  int64    `json:"part,omitempty"`  // bytes of each part, but for the last
	Parts []uint64 `json:"parts,omitempty"` // sequences; none where the message has all of it
}

// mostParts of a blob: what a header can list.
const mostParts = 1024

// PutBlob implements tape.Blobs.
func (s *Store) PutBlob(ctx context.Context, name string, data []byte) (string, error) {
	if err := tape.CheckName(name); err != nil {
		return "", err
	}
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	h, err := s.head(ctx, name)
	if err == nil && !h.there() {
		err = missing(name)
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	handle := hex.EncodeToString(sum[:])
	subject := s.blob(name, handle)
	_, there, err := s.blobRecord(ctx, h, subject)
	if err != nil || there {
		return handle, err
	}
	if err := s.putBlob(ctx, subject, data); err != nil {
		return "", err
	}
	// Was the tape erased before the blob came? Then it is nobody's.
	now, err := s.head(ctx, name)
	if err != nil {
		return "", err
	}
	if !now.there() || now.Born != h.Born {
		if err := s.purge(ctx, subject, 0); err != nil {
			return "", err
		}
		return "", missing(name)
	}
	return handle, nil
}

func (s *Store) putBlob(ctx context.Context, subject string, data []byte) error {
	r := blobRecord{Size: int64(len(data))}
	chunk := int(s.conn.MaxPayload()) - room
	if len(data) > chunk {
		if n := (len(data) + chunk - 1) / chunk; n > mostParts {
			return fmt.Errorf("%w: expected at most %d MiB in a blob, found %d", tape.ErrTooLarge, mostParts*chunk>>20, len(data)>>20)
		}
		r.Part = int64(chunk)
		for i := 0; len(data) > 0; i++ {
			n := min(chunk, len(data))
			seq, err := s.put(ctx, &client.Msg{Subject: subject + "." + strconv.Itoa(i), Data: data[:n]})
			if err != nil {
				return err
			}
			r.Parts, data = append(r.Parts, seq), data[n:]
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = s.put(ctx, &client.Msg{Subject: subject, Data: data, Header: client.Header{headerBlob: {string(text)}}})
	return err
}

// put stores a message of which a second one does no harm.
func (s *Store) put(ctx context.Context, m *client.Msg) (seq uint64, err error) {
	err = s.again(ctx, func(ctx context.Context) error {
		seq, err = s.publish(ctx, m)
		if err == nil && seq == 0 {
			err = errNoAck
		}
		return err
	})
	return seq, err
}

// foundBlob is a blob's record, and all of it where it is in one message.
type foundBlob struct {
	blobRecord
	data []byte
}

// blobRecord looks for a blob of the tape.
func (s *Store) blobRecord(ctx context.Context, h *head, subject string) (b foundBlob, there bool, err error) {
	m, err := s.get(ctx, getRequest{Last: subject})
	if err == nil && m == nil {
		m, err = s.last(ctx, subject)
	}
	if err != nil || m == nil || m.seq <= h.Born { // of a tape of that name before
		return b, false, err
	}
	if err := json.Unmarshal([]byte(m.header.Get(headerBlob)), &b.blobRecord); err != nil {
		return b, false, fmt.Errorf("blob of tape %s, message %d: %w", h.Tape, m.seq, errDamaged)
	}
	b.data = m.data
	return b, true, nil
}

// ReadBlob implements tape.Blobs.
func (s *Store) ReadBlob(ctx context.Context, name, handle string, offset, limit int64) ([]byte, int64, error) {
	if err := tape.CheckName(name); err != nil {
		return nil, 0, err
	}
	ctx, done, err := s.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	h, err := s.head(ctx, name)
	if err == nil && !h.there() {
		err = missing(name)
	}
	if err != nil {
		return nil, 0, err
	}
	unknown := fmt.Errorf("%w: the session has no blob %.80q", tape.ErrNotFound, handle)
	if raw, err := hex.DecodeString(handle); err != nil || len(raw) != sha256.Size || hex.EncodeToString(raw) != handle {
		return nil, 0, unknown
	}
	b, there, err := s.blobRecord(ctx, h, s.blob(name, handle))
	if err != nil {
		return nil, 0, err
	}
	if !there {
		return nil, 0, unknown
	}
	from := min(offset, b.Size)
	to := from + min(limit, b.Size-from)
	if len(b.Parts) == 0 {
		if int64(len(b.data)) != b.Size {
			return nil, 0, fmt.Errorf("blob %s: %w", handle, errDamaged)
		}
		return b.data[from:to:to], b.Size, nil
	}
	if from == to {
		return nil, b.Size, nil
	}
	if b.Part < 1 {
		return nil, 0, fmt.Errorf("blob %s: %w", handle, errDamaged)
	}
	data := make([]byte, 0, to-from)
	for i := from / b.Part; i*b.Part < to && i < int64(len(b.Parts)); i++ {
		m, err := s.fetch(ctx, "", []uint64{b.Parts[i]})
		if err != nil {
			return nil, 0, err
		}
		if m[0] == nil {
			return nil, 0, unknown // erased in this moment
		}
		part, begin := m[0].data, i*b.Part
		end := begin + int64(len(part))
		if low, high := max(begin, from), min(end, to); low < high {
			data = append(data, part[low-begin:high-begin]...)
		}
	}
	if int64(len(data)) != to-from {
		return nil, 0, fmt.Errorf("blob %s: %w", handle, errDamaged)
	}
	return data, b.Size, nil
}
