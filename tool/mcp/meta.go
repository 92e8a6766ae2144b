package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/lingserve/lingserve/tool"
)

// keyMember is the member of _meta that has the key of a call, see [tool.Key]. Its prefix is a domain name backwards, as MCP recommends.
const keyMember = "dev.lingserve/idempotency-key"

// meta returns the _meta of a call: its key, and the trace that it belongs to if the server gets that.
func (s *server) meta(ctx context.Context) sdk.Meta {
	meta := sdk.Meta{}
	if key := tool.Key(ctx); key != "" {
		meta[keyMember] = key
	}
	if s.Traced {
		headers := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, headers)
		for name, value := range headers {
			meta[name] = value
		}
	}
	return meta
}
