package system

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// apiServer is the process that stands between users and the replicas of a node. One thread parses and tokenises requests,
// and detokenises and sends tokens, first come, first served. A user's times are taken on the user's side of it: requests
// wait for the tokens of others, and tokens for requests.
type apiServer struct {
	request, token units.Duration // that each takes
	free           units.Duration // when all that came so far is done
	parsed         []parsed       // requests that came and are not yet with a replica, first come first
	busy           units.Duration
	inside         units.Total // requests times picoseconds: of those parsed, and of those whose last token waits here
}

// parsed is a request that goes to a replica at a time.
type parsed struct {
	at      units.Duration
	request traces.Request
	place   int32
}

// newAPIServer returns nil where it takes no time.
func newAPIServer(s *scheduler.ServingSpec) *apiServer {
	if !s.HasAPIServer() {
		return nil
	}
	return &apiServer{request: s.APIRequest, token: s.APIToken}
}

// work does n pieces of work that come now, and returns when they are done.
func (a *apiServer) work(now, each units.Duration, n int) units.Duration {
	took := units.Duration(n) * each
	a.free = max(a.free, now) + took
	a.busy += took
	return a.free
}

// take parses a request that a user sends now.
func (a *apiServer) take(q traces.Request, place int32, now units.Duration) {
	at := a.work(now, a.request, 1)
	a.inside.Add(at - now)
	a.parsed = append(a.parsed, parsed{at, q, place})
}

// ready returns when the next request goes to a replica, never without one.
func (a *apiServer) ready() units.Duration {
	if a == nil || len(a.parsed) == 0 {
		return never
	}
	return a.parsed[0].at
}

// next returns the request that goes to a replica now.
func (a *apiServer) next() parsed {
	p := a.parsed[0]
	a.parsed = a.parsed[1:]
	return p
}

// send sends the tokens of an iteration that ends now, and returns how long after it they are with the users: all at once,
// as an engine hands them over.
func (a *apiServer) send(b *scheduler.Batch, now units.Duration) units.Duration {
	tokens := b.Drafted
	for s := range b.Sub {
		tokens += b.Sub[s].Emitting()
	}
	if a == nil || tokens == 0 {
		return 0
	}
	return a.work(now, a.token, tokens) - now
}
