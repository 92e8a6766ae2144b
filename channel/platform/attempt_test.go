package platform_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/lingserve/lingserve/channel/platform"
)

func TestAnErrorIsToldWithoutTheAddress(t *testing.T) {
	stopped := errors.New("somebody has stopped it")
	for name, tt := range map[string]struct {
		err       error
		over      bool // ctx has ended
		unreached bool
		want      error // in it
	}{
		"no connection":             {&net.OpError{Op: "dial", Err: io.ErrNoProgress}, false, true, io.ErrNoProgress},
		"no such host":              {&net.DNSError{Err: "no such host", Name: "x"}, false, true, nil},
		"no connection, and over":   {&net.OpError{Op: "dial", Err: context.Canceled}, true, true, context.Canceled},
		"a connection that broke":   {&net.OpError{Op: "read", Err: io.ErrUnexpectedEOF}, false, false, io.ErrUnexpectedEOF},
		"an answer that never came": {context.Canceled, true, false, stopped},
		"something else":            {io.ErrUnexpectedEOF, false, false, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if tt.over {
				cancel(stopped)
			}
			err := platform.Bare(ctx, &url.Error{Op: "Post", URL: "https://api.test/bot42:canary/getMe", Err: tt.err})
			if _, is := errors.AsType[*platform.Unreached](err); is != tt.unreached {
				t.Errorf("%v: unreached: %t", err, is)
			}
			if tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("%v, expected %v in it", err, tt.want)
			}
			if strings.Contains(err.Error(), "canary") || tt.unreached && !strings.HasPrefix(err.Error(), "cannot connect to the platform: ") {
				t.Error(err)
			}
		})
	}
}
