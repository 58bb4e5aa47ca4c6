-- Subscribers are picked unevenly, as the benchmark does: the bits of two numbers, joined by or.
\set mask :subscribers / 16
\set s_id 1 + (random(0, :mask) | random(0, :subscribers - 1)) % :subscribers
\set type random(1, 4)
\set start random(0, 2) * 8
\set end random(1, 24)
select cf.numberx from special_facility sf join call_forwarding cf using (s_id, sf_type)
where s_id = :s_id and sf_type = :type and sf.is_active and cf.start_time <= :start and cf.end_time > :end;
