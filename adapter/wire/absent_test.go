package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/lingserve/lingserve/adapter"
)

// A provider that is run by its users says how to start it; but only where nothing is there, not where something is slow.
func TestWhatIsSaidWhereNothingAnswers(t *testing.T) {
	const (
		absent = "start it"
		slow   = "could not connect to the model's server (x) in time"
		broke  = "the connection to the model's server (x) broke before it answered"
	)
	dial := func(err error) error {
		return &url.Error{Op: "Post", URL: "http://h", Err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
	}
	for _, row := range []struct {
		name        string
		err         error
		code        string
		says, plain string // with and without a sentence of the provider's own
	}{
		{
			"refused", dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), adapter.CodeUnavailable,
			absent, "cannot connect to the model's server (x): check that it runs, and the base URL",
		},
		{
			"no such host", dial(&net.DNSError{Err: "no such host", IsNotFound: true}), adapter.CodeUnavailable,
			absent, "the model's server (x) cannot be found: check the base URL",
		},
		{"no answer in time", dial(context.DeadlineExceeded), adapter.CodeTimeout, slow, slow},
		{"broken later", errors.New("EOF"), adapter.CodeUnavailable, broke, broke},
	} {
		t.Run(row.name, func(t *testing.T) {
			for own, said := range map[string]string{absent: row.says, "": row.plain} {
				s := Server{Prefix: "x", Key: func() string { return "" }, Absent: own}
				if e := s.Unreachable(row.err); e.Message != said || e.Code != row.code || !e.Retryable {
					t.Errorf("%+v, want %q", e, said)
				}
			}
		})
	}
}

func TestAReportWhoseErrorIsAStringMayHaveAStatusBesideIt(t *testing.T) {
	for _, member := range []string{"status", "code"} {
		if r := ReadReport(fmt.Appendf(nil, `{"error":"too often",%q:429}`, member)); r.Status != 429 || r.Message != "too often" {
			t.Errorf("%s: %+v", member, r)
		}
	}
}
