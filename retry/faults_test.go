// Package retry_test proves package retry, also on the faults that others have had. A test is named after the fault:
//
//	R1   a POST that was answered 502 is sent again         retryhttp: TestR01WhatIsSentAgain, TestTheServerActsAndItsReplyIsLost
//	R2   Retry-After without a bound, or that overflows      TestR02HintsAreClamped, FuzzDelays
//	                                                         retryhttp: TestR02RetryAfterForms, TestR02RetryAfterIsHeededAndClamped
//	R3   a delay that overflows at a high attempt number     TestR03R16DelaysStayWithinTheCap, FuzzDelays
//	R5   zero means no attempt, no end, or no pause          TestR05ZeroOptionsAreTheDocumentedDefaults
//	R7   the end of the context hides the last error         TestR07TheLastErrorOutlivesTheContext
//	R8   a budget that a lone caller never meets             TestR08ABudgetLimitsSequentialCalls, TestR08ABudgetIsExactUnderConcurrency
//	R9   the body dies with the context of the attempt       retryhttp: TestR09TheBodyOutlivesTheAttempt
//	R10  each body is read into memory                       retryhttp: TestR10AStreamIsNotBuffered, TestR10R11Bodies
//	R11  the second attempt sends an empty body              retryhttp: TestR11AResetInTheMiddleOfTheBody, TestR10R11Bodies
//	R13  an open breaker is tried again                      TestR13AnOpenBreakerIsNotRetried
//	R14  callers who cancel open the breaker, a probe that   TestR14CancellationsAreNeutral,
//	     hangs keeps it open                                 TestR14AHungProbeKeepsNobodyOutForEver
//	R16  jitter on top of the cap                            TestR03R16DelaysStayWithinTheCap
//	R17  a POST is silently not sent again                   retryhttp: TestR17TheReasonIsTold
//	R18  the transport below sends again by itself           retryhttp: TestR18EverySendHasTheSameKey
//	R20  a dial that failed counts as sent                   retryhttp: TestR20DialsAreTriedAgain
package retry_test
