package logs

import (
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// Whole is a tape as a log: for stores of earlier versions, whose tapes are taken in.
type Whole struct {
	Name, Label string
	Head        []byte
}

// WholeOf returns the log of a tape.
func WholeOf(i tape.Info) (w Whole, err error) {
	st := state{info: i}
	w.Name, w.Label = keyOf(i.Tape), groupOf(i.Session)
	w.Head, err = st.encode()
	return w, err
}

// EntryOf returns an entry of a tape as one of its log.
func EntryOf(e tape.Entry) store.Entry {
	return store.Entry{N: uint64(e.ID), Data: e.AppendJSON(nil), Mark: e.Kind == tape.KindAnchor}
}

// BlobBytes is how much of a blob an entry of its log has, but for the last one. An empty blob has one entry.
const BlobBytes = blobBytes

// BlobOf returns the name of the log of a blob.
func BlobOf(name, handle string) string { return blobKey(&state{key: keyOf(name)}, handle) }
