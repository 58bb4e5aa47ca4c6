-- Subscribers are picked unevenly, as the benchmark does: the bits of two numbers, joined by or.
\set mask :subscribers / 16
\set s_id 1 + (random(0, :mask) | random(0, :subscribers - 1)) % :subscribers
\set type random(1, 4)
\set bit random(0, 1)
\set data random(0, 255)
begin;
update subscriber set bits[1] = :bit where s_id = :s_id;
update special_facility set data_a = :data where s_id = :s_id and sf_type = :type;
commit;
