"""Tasks that stand in the way: ended, running, due much later, or behind the first of their key."""

COLUMNS = "seq, id, version, status, queue, type, priority, attempts, fence, created_at, available_at, record"

ENDED = f"""
    INSERT INTO tenure.ended ({COLUMNS}, ended_at)
    SELECT nextval('tenure.submit_order'), 'ended-' || n, 3, 'completed', 'default', 'greet', 0, 0, 1, now(), now(),
        convert_to(repeat('x', 300), 'UTF8'), now() + n * interval '1 microsecond'
    FROM generate_series(1, %s) AS n
"""
SCHEDULED = f"""
    INSERT INTO tenure.tasks ({COLUMNS}, blocked)
    SELECT nextval('tenure.submit_order'), 'scheduled-' || n, 1, 'pending', 'default', 'greet', 0, 0, 0, now(),
        now() + interval '1 day' + n * interval '1 microsecond', convert_to(repeat('x', 300), 'UTF8'), false
    FROM generate_series(1, %s) AS n
"""
STUCK = f"""
    INSERT INTO tenure.tasks ({COLUMNS}, blocked, ordering_key)
    SELECT nextval('tenure.submit_order'), 'stuck-' || n, 1, 'pending', 'default', 'greet', 9, 0, 0, now(), now(),
        convert_to(repeat('x', 300), 'UTF8'), true, 'key'
    FROM generate_series(1, %s) AS n
"""

RUNNING = f"""
    INSERT INTO tenure.tasks ({COLUMNS}, blocked, worker_id, claimed_at, lease_expires_at)
    SELECT nextval('tenure.submit_order'), 'running-' || n, 2, 'running', 'default', 'greet', 0, 0, 1, now(), now(),
        convert_to(repeat('x', 300), 'UTF8'), false, 'w' || mod(n, 10), now(), now() + interval '1 day'
    FROM generate_series(1, %s) AS n
"""


def fill(admin, ended, scheduled, stuck, running=0):
    """Put them there, much faster than by submitting them. They are never read, so their records say nothing."""
    for statement, count in ((ENDED, ended), (SCHEDULED, scheduled), (STUCK, stuck), (RUNNING, running)):
        admin.execute(statement, [count])
    admin.execute("VACUUM ANALYZE tenure.tasks, tenure.ended")
