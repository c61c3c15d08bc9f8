// Package idemhttp is net/http middleware that does the work of a request once for each Idempotency-Key, and replays its
// response to every repetition. The claim of the key, the handler's writes and the response are one commit; the response
// is sent after it.
//
//	keys := idem.New(db, nil) // db := pgxtx.New(pool) or sqltx.New(sqlDB, tx.SQLite, nil)
//	m := idemhttp.New(keys, func(r *http.Request) (string, error) { return auth.Tenant(r.Context()) }, nil)
//
//	mux.Handle("POST /payments", m.Handler(func(w http.ResponseWriter, r *http.Request, t pgx.Tx) error {
//		receipt, err := charge(r.Context(), t, r.Body) // your SQL, your sqlc, in this transaction
//		if err != nil {
//			return err
//		}
//		w.WriteHeader(http.StatusCreated)
//		return json.NewEncoder(w).Encode(receipt)
//	}))
//
// [Middleware.Wrap] takes a plain http.Handler, which joins the transaction with db.Do(r.Context(), …) or [Tx].
//
// A handler that calls a payment provider, or any other service that has an effect, is behind a [Leased] instead. No transaction
// is open while it calls: the call is a step, which is recorded before and after, and [Finish] has the writes and the response in one
// commit:
//
//	leased := idemhttp.NewLeased(idem.NewLeased(keys, nil), tenantOf, nil)
//
//	mux.Handle("POST /charges", leased.Handler(func(w http.ResponseWriter, r *http.Request, run *idem.RunTx[pgx.Tx]) error {
//		charge, err := idem.Step(r.Context(), run, idem.External[Charge]{
//			Name:      "charge",
//			Call:      func(ctx context.Context, key string) (Charge, error) { return provider.Charge(ctx, key, order) },
//			Reconcile: func(ctx context.Context, key string) (Charge, idem.Landing, error) { return provider.Find(ctx, key) },
//		})
//		if err != nil {
//			return err // free, if the provider has refused; unknown, if nobody knows: then it is looked for, and not made again
//		}
//		return idemhttp.Finish(r.Context(), run, func(ctx context.Context, t pgx.Tx) error {
//			if err := book(ctx, t, charge); err != nil {
//				return err
//			}
//			w.WriteHeader(http.StatusCreated)
//			return json.NewEncoder(w).Encode(charge)
//		})
//	}))
//
// # Guarantees
//
// They are those of package idem, for requests:
//
//   - What a handler writes in its transaction happens at most once for each key, under retries, concurrency and crashes.
//   - A repetition gets the same status, body and kept headers, marked with Idempotency-Replayed: true. The handler does
//     not run.
//   - A response that the client has seen is committed. One that it has not seen is replayed, or was rolled back.
//   - A duplicate at the same moment gets 409 with Retry-After, or waits if idem.Options.Wait says so.
//   - A key that comes with another request gets 422: another method, path, query, content type or body.
//   - A final 4xx is an answer: it is stored, while what the handler wrote in the database is undone. 5xx, 408, 409,
//     421, 423, 425 and 429 are sent, roll back and free the key.
//   - A response that is too large to keep is not made again: the first caller gets it, a repetition gets 409 with a
//     code.
//   - No scope reads another's responses, whatever key it guesses.
//   - Cookies, credentials and headers of the connection are never stored; only [DefaultHeaders] and Options.Headers are.
//
// # Keys
//
// Idempotency-Key holds 1 to 255 printable ASCII characters, quoted as the IETF draft has it ("8e03978e") or as they
// stand (8e03978e): that is the same key. Two lines of one header, two headers that disagree, parameters after the
// quoted form and an unquoted comma are refused with 400. A key belongs to its scope and to the operation that
// Options.Name tells; the same value on another route is another key where the route is known, and a mismatch where it
// is not.
//
// # Refusals
//
// They are application/problem+json (RFC 9457) with a stable member code; see the Code constants for the statuses.
// Options.Refuse can write another, and Options.Observer is told of each, with its cause; those from 500 on are logged too.
//
// # Calls to others
//
// Behind a [Leased] the guarantees are those of [idem.DoLeased]. What is different for the client:
//
//   - While a request is at it, another with its key gets 409, with what is left of the lease as Retry-After, also if the process
//     has died: then the next one after that takes over. With idem.LeaseOptions.Wait it waits for the answer.
//   - If a step has begun and nobody knows what became of it, the response is 503 with [CodeOutcomeUnknown], whatever the handler
//     made of it, and the key is kept. Retry-After says when it is looked into again; without one, a person has to: see
//     [idem.Leased.Resolve].
//   - 5xx and the like are sent and not stored. They free the key only if no step has begun. If one is recorded, the next request
//     goes on from there, and does not make it again.
//   - A handler that has lost its lease sends nothing of its own: 503, and a retry finds what the other execution answered.
//
// A client that does not come back leaves its key as it is: [idem.Leased.Complete] runs functions that [idem.Handle] has, and no
// requests. Where it must come to an end without the client, call such a handler from a plain http.Handler. Set Options.Linger, so that
// a client who hangs up does not cancel a call to others whose outcome nobody knows then.
//
// # Responses
//
// All of a response waits in memory for the commit: up to Options.MaxResponse. Above that its body is dropped, and the
// first caller too is told that the answer was not retained; the work stands. Then:
//
//   - Flush sends nothing. A streamed response arrives in one piece, and is replayed as one.
//   - Hijack, and 101, are refused with [ErrHijack]. WebSockets and server-sent events are not for requests with a key.
//   - 1xx are dropped. Trailers go to the first caller and are not replayed. 204, 304 and HEAD have no body.
//   - A response that the handler compressed is kept compressed, with its Content-Encoding and Vary, and replayed to
//     whoever repeats, whatever they accept: put compression outside this middleware, where it sees replays as well.
//   - Headers of a middleware outside are there on replays as it sets them; headers of one inside only if they are kept.
//
// # Failure modes
//
//   - The client hangs up: the context of the handler ends, and the work rolls back, or commits if the handler returns a
//     response all the same. Options.Linger lets it go on for a while. A committed response that could not be sent is
//     replayed.
//   - The handler panics: rolled back, the key is free, and the panic goes on to the server.
//   - The process dies: as in package idem, before the commit nothing is there, after it everything.
//   - A serialization failure: the handler runs again with the same body and an empty response. It must return the
//     error, or run its statements in [tx.DB.Do]; if it answers 500 instead, the client gets that and has to come again.
//   - The database is down, slow or read-only: 503 with Retry-After. It is not migrated: 500. No request runs unprotected.
//     The client is told what it may do, and Options.ErrorLog, by default that of the process, what is wrong.
//
// # Routers
//
// With chi, put it behind routing, so that the route is known: r.With(m.Wrap).Post("/payments", pay). With echo:
//
//	e.POST("/payments", echo.WrapHandler(m.Handler(pay)))
//
// echo.WrapMiddleware(m.Wrap) works too, if what echo makes of an error is written inside of it:
//
//	e.POST("/payments", pay, echo.WrapMiddleware(m.Wrap), func(next echo.HandlerFunc) echo.HandlerFunc {
//		return func(c echo.Context) error {
//			if err := next(c); err != nil {
//				c.Error(err)
//			}
//			return nil
//		}
//	})
//
// With gin, whose chain of handlers cannot run a second time:
//
//	router.POST("/payments", gin.WrapH(m.Handler(pay)))
//
// echo and gin do not tell the route to net/http: set Options.Name, or keys are told apart by the method alone, with the
// path as a part of the request that must not change.
//
// # Storage
//
// That of package idem. The body column holds the status, the kept headers and the body of the response.
//
// # Settings
//
// idem.Options.TTL is how long clients may repeat, and idem.Options.MaxBody what is kept of a response. Put
// authentication outside, so that the scope is known, and timeouts outside too. Set Options.AuthorizeReplay if rights
// can be lost within the TTL.
//
// # When not to use it
//
// Over transactions, for handlers that call a payment provider: one commit cannot cover that, see [Leased]. For downloads and
// streams. For GET, which is safe to repeat. Where the same operation also comes from a queue, put the boundary into the service with [idem.Do]
// instead.
package idemhttp
