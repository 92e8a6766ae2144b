// Package api holds the contract: the OpenAPI description of every resource, embedded and served.
package api

import _ "embed"

// Contract is the OpenAPI 3.1 description, as YAML text.
//
//go:embed openapi.yaml
var Contract []byte
