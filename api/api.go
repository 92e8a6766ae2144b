// Package api holds the contract: the OpenAPI description of every resource, embedded and served.
package api
