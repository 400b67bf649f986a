-- set_ended_aside.sql: take a damaged record of an ended task out of listings and retention; its bytes stay.
UPDATE tenure.ended SET status = 'damaged', ended_at = NULL FROM tenure.ended AS before
WHERE ended.id = $1 AND before.id = ended.id AND ended.status <> 'damaged'
RETURNING ended.queue, ended.type, NULL, before.status
