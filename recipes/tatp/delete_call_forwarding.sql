-- Subscribers are picked unevenly, as the benchmark does: the bits of two numbers, joined by or.
\set mask :subscribers / 16
\set s_id 1 + (random(0, :mask) | random(0, :subscribers - 1)) % :subscribers
\set type random(1, 4)
\set start random(0, 2) * 8
delete from call_forwarding where sf_type = :type and start_time = :start
and s_id = (select s_id from subscriber where sub_nbr = lpad(:s_id::text, 15, '0'));
