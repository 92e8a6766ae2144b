package web

import (
	"net/http"

	"github.com/lingserve/lingserve/access"
)

// who asks. Where nobody has to say who they are, it is the one user of the server.
func who(r *http.Request) access.Principal { return access.From(r.Context()) }
