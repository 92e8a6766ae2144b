package nats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/lingserve/lingserve/runlog"
)

// apiError is how JetStream says no.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// errNoMessage is the code of a subject that has no message.
const errNoMessage = 10037

// parseAck takes the answer to a message: its sequence, or the code of the error.
func parseAck(data []byte) (seq uint64, code int, err error) {
	// {"stream":"…","seq":12} is nearly all that ever comes.
	if i := bytes.Index(data, []byte(`"seq":`)); i >= 0 && !bytes.Contains(data, []byte(`"error"`)) {
		rest := bytes.TrimLeft(data[i+len(`"seq":`):], " ")
		n := 0
		for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
			n++
		}
		if seq, err := strconv.ParseUint(string(rest[:n]), 10, 64); err == nil && seq > 0 {
			return seq, 0, nil
		}
	}
	var a struct {
		Seq   uint64    `json:"seq"`
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return 0, 0, fmt.Errorf("runlog: an answer of no known form: %w", err)
	}
	if a.Error != nil {
		return 0, a.Error.ErrCode, a.Error
	}
	if a.Seq == 0 {
		return 0, 0, fmt.Errorf("runlog: invalid answer: %.80q", data)
	}
	return a.Seq, 0, nil
}

func lastRequest(stream string) string { return "$JS.API.STREAM.MSG.GET." + stream }

// lastOf asks for the last message of a subject, which is of tokens and needs no escape.
func lastOf(subject string) []byte { return fmt.Appendf(nil, `{"last_by_subj":%q}`, subject) }

func purgeOf(subject string) []byte { return fmt.Appendf(nil, `{"filter":%q}`, subject) }

// purgeBelow asks that of what is stored before a sequence.
func purgeBelow(subject string, seq uint64) []byte {
	return fmt.Appendf(nil, `{"filter":%q,"seq":%d}`, subject, seq)
}

// parseLast takes the answer to lastOf.
func parseLast(answer []byte) (seq uint64, data []byte, err error) {
	var a struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Seq  uint64 `json:"seq"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(answer, &a); {
	case err != nil:
		return 0, nil, fmt.Errorf("runlog: an answer of no known form: %w", err)
	case a.Error != nil && a.Error.ErrCode == errNoMessage:
		return 0, nil, runlog.ErrUnknown
	case a.Error != nil:
		return 0, nil, a.Error
	case a.Message == nil:
		return 0, nil, fmt.Errorf("runlog: invalid answer: %.80q", answer)
	}
	return a.Message.Seq, a.Message.Data, nil
}
