package system

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// apiServer is the process between users and the replicas of a node. One thread parses and tokenises requests, and
// detokenises and sends tokens, first come, first served. Latencies are measured at the user: requests wait for the tokens
// of others, and tokens for requests.
type apiServer struct {
	request, token units.Duration // time that each takes
	free           units.Duration // when all work that has arrived is done
	parsed         []parsed       // requests that have arrived and are not yet with a replica, in order of arrival
	busy           units.Duration
	inside         units.Total // requests times picoseconds, of requests and last tokens inside
}

// parsed is a request, and when it goes to a replica.
type parsed struct {
	at      units.Duration
	request traces.Request
	place   int32
}

// newAPIServer returns nil if the process takes no time.
func newAPIServer(s *scheduler.ServingSpec) *apiServer {
	if !s.HasAPIServer() {
		return nil
	}
	return &apiServer{request: s.APIRequest, token: s.APIToken}
}

// work queues n pieces of work that arrive now, and returns when they are done.
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

// ready returns when the next request goes to a replica; never if there is none.
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

// send sends the tokens of an iteration that ends now, and returns how much later users have them. Tokens of an iteration
// arrive together, as an engine hands them over.
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
